#include "commlens/formats/chakra/messages.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace commlens::formats::chakra {
namespace {

constexpr std::size_t k_chakra_block = std::size_t{256} << 10;
constexpr std::size_t k_longest_varint = 10;

/// A varint at the begin of `bytes` and the number of its bytes; std::nullopt when it does not end there.
struct Varint {
  std::uint64_t value = 0;
  std::size_t size = 0;
};
std::optional<Varint> varint_of(std::string_view bytes) {
  Varint varint;
  while (varint.size < std::min(bytes.size(), k_longest_varint)) {
    const auto byte = static_cast<unsigned char>(bytes[varint.size]);
    varint.value |= std::uint64_t{byte & 0x7FU} << (7 * varint.size);
    ++varint.size;
    if (byte < 0x80U) {
      return varint;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> integer_of(std::uint64_t value) {
  return value <= static_cast<std::uint64_t>(INT64_MAX) ? std::optional(static_cast<std::int64_t>(value))
                                                        : std::nullopt;
}

std::optional<std::int64_t> integer_of(const Attribute& attribute) {
  switch (attribute.value_case()) {
    case Attribute::kInteger32:
      return attribute.integer_32();
    case Attribute::kInteger:
      return attribute.integer();
    case Attribute::kNatural32:
      return attribute.natural_32();
    case Attribute::kNatural:
      return integer_of(attribute.natural());
    case Attribute::kZigzag32:
      return attribute.zigzag_32();
    case Attribute::kZigzag:
      return attribute.zigzag();
    case Attribute::kFixedNatural32:
      return attribute.fixed_natural_32();
    case Attribute::kFixedNatural:
      return integer_of(attribute.fixed_natural());
    case Attribute::kFixedInteger32:
      return attribute.fixed_integer_32();
    case Attribute::kFixedInteger:
      return attribute.fixed_integer();
    case Attribute::kReal:
    case Attribute::kReal32:
    case Attribute::kFlag:
    case Attribute::kText:
    case Attribute::VALUE_NOT_SET:
      break;
  }
  return std::nullopt;
}

const Attribute* find(const Attributes& attributes, std::string_view name) {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [name](const Attribute& attribute) { return attribute.name() == name; });
  return found == attributes.end() ? nullptr : &*found;
}

template <typename Message>
bool parsed(std::string_view bytes, Message& message) {
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace

std::optional<std::int64_t> integer(const Attributes& attributes, std::string_view name) {
  const Attribute* const found = find(attributes, name);
  return found == nullptr ? std::nullopt : integer_of(*found);
}

std::optional<bool> flag(const Attributes& attributes, std::string_view name) {
  const Attribute* const found = find(attributes, name);
  return found != nullptr && found->has_flag() ? std::optional(found->flag()) : std::nullopt;
}

std::string_view text(const Attributes& attributes, std::string_view name) {
  const Attribute* const found = find(attributes, name);
  return found != nullptr && found->has_text() ? std::string_view(found->text()) : std::string_view();
}

Error Reader::damaged(std::string_view what) const {
  return {fmt::format("{}: byte {}: {}; is this a Chakra trace (.et), and whole?", source_.name(), offset_,
                      what)};
}

/// Makes at least `wanted` bytes unread; false when the file has fewer.
Result<bool> Reader::fill(std::size_t wanted) {
  while (end_ - begin_ < wanted) {
    if (begin_ > 0) {
      std::move(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
                buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
      end_ -= begin_;
      begin_ = 0;
    }
    if (buffer_.size() < end_ + k_chakra_block) {
      buffer_.resize(end_ + k_chakra_block);
    }
    const Result<std::size_t> got = source_.read(buffer_.data() + end_, buffer_.size() - end_);
    if (!got) {
      return tl::unexpected(got.error());
    }
    if (*got == 0) {
      return false;
    }
    end_ += *got;
  }
  return true;
}

/// The next message becomes the `message_size_` bytes before begin_; false at the end of the file.
Result<bool> Reader::next_message() {
  offset_ = passed_;
  if (const Result<bool> got = fill(k_longest_varint); !got) {
    return tl::unexpected(got.error());
  }
  if (begin_ == end_) {
    return false;
  }
  const std::string_view unread(buffer_.data() + begin_, end_ - begin_);
  const std::optional<Varint> length = varint_of(unread);
  if (!length && unread.size() >= k_longest_varint) {
    return tl::unexpected(damaged("no length of a message"));
  }
  if (length && length->value > k_longest_message) {
    return tl::unexpected(damaged(fmt::format("a message of {} bytes, beyond 16 MiB", length->value)));
  }
  const auto [value, length_size] = length.value_or(Varint{});
  const auto size = static_cast<std::size_t>(value);
  const Result<bool> is_whole = length ? fill(length_size + size) : Result<bool>(false);
  if (!is_whole) {
    return tl::unexpected(is_whole.error());
  }
  if (!*is_whole) {
    is_cut_off_ = true;
    begin_ = end_;
    return false;
  }
  message_size_ = size;
  begin_ += length_size + size;
  passed_ += static_cast<std::int64_t>(length_size + size);
  return true;
}

Result<GlobalMetadata> Reader::metadata() {
  const Result<bool> got = next_message();
  if (!got) {
    return tl::unexpected(got.error());
  }
  GlobalMetadata message;
  const std::string_view bytes(buffer_.data() + begin_ - message_size_, message_size_);
  if (!*got || !parsed(bytes, message)) {
    return tl::unexpected(damaged(*got ? "no head of a trace" : "the file ends before its head"));
  }
  return message;
}

Result<bool> Reader::next(Node& node) {
  Result<bool> got = next_message();
  if (got && *got && !parsed({buffer_.data() + begin_ - message_size_, message_size_}, node)) {
    return tl::unexpected(damaged("no node"));
  }
  return got;
}

bool starts_as_chakra(std::string_view head) {
  // Fields that nobody defined are those of another format's bytes: a message begins with its field 1 or 2.
  const auto take = [&head](auto& message, std::string_view first_bytes) {
    const std::optional<Varint> length = varint_of(head);
    if (!length || length->value > head.size() - length->size) {
      return false;
    }
    const std::string_view bytes = head.substr(length->size, length->value);
    head.remove_prefix(length->size + bytes.size());
    const bool begins_well = bytes.empty() || first_bytes.find(bytes.front()) != std::string_view::npos;
    return begins_well && parsed(bytes, message);
  };
  GlobalMetadata metadata;
  Node node;
  return take(metadata, "\x0a\x12") && take(node, "\x08\x12") && !node.name().empty() && node.type() > 0 &&
         node.type() < 64;
}

void append_length(std::size_t length, std::string& bytes) {
  for (; length >= 0x80U; length >>= 7U) {
    bytes += static_cast<char>((length & 0x7FU) | 0x80U);
  }
  bytes += static_cast<char>(length);
}

}  // namespace commlens::formats::chakra
