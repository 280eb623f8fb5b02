#include "commlens/formats/chakra/messages.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include <chakra.pb.h>
#include <fmt/format.h>

namespace commlens::formats::chakra {
namespace {

constexpr std::size_t k_chakra_block = std::size_t{256} << 10;
constexpr std::size_t k_longest_varint = 10;

/// A varint at the begin of `bytes` and the number of its bytes; nothing when it does not end there.
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

void append_varint(std::uint64_t value, std::string& bytes) {
  for (; value >= 0x80U; value >>= 7U) {
    bytes += static_cast<char>((value & 0x7FU) | 0x80U);
  }
  bytes += static_cast<char>(value);
}

ChakraAttribute::Value whole_number(std::uint64_t value) {
  return value <= static_cast<std::uint64_t>(INT64_MAX)
             ? ChakraAttribute::Value(static_cast<std::int64_t>(value))
             : ChakraAttribute::Value();
}

ChakraAttribute::Value value_of(const Attribute& attribute) {
  switch (attribute.value_case()) {
    case Attribute::kReal:
      return attribute.real();
    case Attribute::kReal32:
      return double{attribute.real_32()};
    case Attribute::kInteger32:
      return std::int64_t{attribute.integer_32()};
    case Attribute::kInteger:
      return attribute.integer();
    case Attribute::kNatural32:
      return std::int64_t{attribute.natural_32()};
    case Attribute::kNatural:
      return whole_number(attribute.natural());
    case Attribute::kZigzag32:
      return std::int64_t{attribute.zigzag_32()};
    case Attribute::kZigzag:
      return attribute.zigzag();
    case Attribute::kFixedNatural32:
      return std::int64_t{attribute.fixed_natural_32()};
    case Attribute::kFixedNatural:
      return whole_number(attribute.fixed_natural());
    case Attribute::kFixedInteger32:
      return std::int64_t{attribute.fixed_integer_32()};
    case Attribute::kFixedInteger:
      return attribute.fixed_integer();
    case Attribute::kFlag:
      return attribute.flag();
    case Attribute::kText:
      return attribute.text();
    case Attribute::VALUE_NOT_SET:
      break;
  }
  return {};
}

template <typename Message>
ChakraAttributes attributes_of(const Message& message) {
  ChakraAttributes attributes;
  for (const Attribute& attribute : message.attributes()) {
    attributes.add(attribute.name(), value_of(attribute));
  }
  return attributes;
}

void set_value(const ChakraAttribute::Value& value, Attribute& attribute) {
  std::visit(
      [&attribute](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::int64_t>) {
          attribute.set_integer(held);
        } else if constexpr (std::is_same_v<Held, double>) {
          attribute.set_real(held);
        } else if constexpr (std::is_same_v<Held, bool>) {
          attribute.set_flag(held);
        } else if constexpr (std::is_same_v<Held, std::string>) {
          attribute.set_text(held);
        } else if constexpr (std::is_same_v<Held, std::int32_t>) {
          attribute.set_integer_32(held);
        }
      },
      value);
}

template <typename Message>
void set_attributes(const ChakraAttributes& attributes, Message& message) {
  for (const ChakraAttribute& attribute : attributes.list()) {
    Attribute* const added = message.add_attributes();
    added->set_name(attribute.name);
    set_value(attribute.value, *added);
  }
}

ChakraNodeType node_type_of(std::int32_t type) {
  constexpr auto other = static_cast<std::int32_t>(ChakraNodeType::other);
  return type < 0 || type > other ? ChakraNodeType::other : static_cast<ChakraNodeType>(type);
}

template <typename Message>
bool parsed(std::string_view bytes, Message& message) {
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

template <typename Message>
void append_message(const Message& message, std::string& bytes) {
  append_varint(message.ByteSizeLong(), bytes);
  message.AppendToString(&bytes);
}

}  // namespace

const ChakraAttribute* ChakraAttributes::find(std::string_view name) const {
  const auto found = std::find_if(list_.begin(), list_.end(), [name](const ChakraAttribute& attribute) {
    return attribute.name == name;
  });
  return found == list_.end() ? nullptr : &*found;
}

std::optional<std::int64_t> ChakraAttributes::integer(std::string_view name) const {
  const ChakraAttribute* const found = find(name);
  const std::int64_t* const value = found == nullptr ? nullptr : std::get_if<std::int64_t>(&found->value);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<bool> ChakraAttributes::flag(std::string_view name) const {
  const ChakraAttribute* const found = find(name);
  const bool* const value = found == nullptr ? nullptr : std::get_if<bool>(&found->value);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::string_view ChakraAttributes::text(std::string_view name) const {
  const ChakraAttribute* const found = find(name);
  const std::string* const value = found == nullptr ? nullptr : std::get_if<std::string>(&found->value);
  return value == nullptr ? std::string_view() : *value;
}

Error ChakraReader::damaged(std::string_view what) const {
  return {fmt::format("{}: byte {}: {}; is this a Chakra trace (.et), and whole?", source_.name(), offset_,
                      what)};
}

/// Makes at least `wanted` bytes unread; false when the file has fewer.
Result<bool> ChakraReader::fill(std::size_t wanted) {
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
Result<bool> ChakraReader::next_message() {
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

Result<ChakraMetadata> ChakraReader::metadata() {
  const Result<bool> got = next_message();
  if (!got) {
    return tl::unexpected(got.error());
  }
  GlobalMetadata message;
  const std::string_view bytes(buffer_.data() + begin_ - message_size_, message_size_);
  if (!*got || !parsed(bytes, message)) {
    return tl::unexpected(damaged(*got ? "no head of a trace" : "the file ends before its head"));
  }
  return ChakraMetadata{message.version(), attributes_of(message)};
}

Result<bool> ChakraReader::next(ChakraNode& node) {
  Result<bool> got = next_message();
  if (!got || !*got) {
    return got;
  }
  Node message;
  if (!parsed({buffer_.data() + begin_ - message_size_, message_size_}, message)) {
    return tl::unexpected(damaged("no node"));
  }
  node.id = message.id();
  node.name = message.name();
  node.type = node_type_of(message.type());
  node.control_dependencies.assign(message.control_dependencies().begin(),
                                   message.control_dependencies().end());
  node.data_dependencies.assign(message.data_dependencies().begin(), message.data_dependencies().end());
  node.start_us = message.start_us();
  node.duration_us = message.duration_us();
  node.input_values = message.inputs().values();
  node.input_types = message.inputs().types();
  node.output_values = message.outputs().values();
  node.attributes = attributes_of(message);
  return true;
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

void append_chakra(const ChakraMetadata& metadata, std::string& bytes) {
  GlobalMetadata message;
  message.set_version(metadata.version);
  set_attributes(metadata.attributes, message);
  append_message(message, bytes);
}

void append_chakra(const ChakraNode& node, std::string& bytes) {
  Node message;
  message.set_id(node.id);
  message.set_name(node.name);
  message.set_type(static_cast<std::int32_t>(node.type));
  message.mutable_control_dependencies()->Add(node.control_dependencies.begin(),
                                              node.control_dependencies.end());
  message.mutable_data_dependencies()->Add(node.data_dependencies.begin(), node.data_dependencies.end());
  message.set_start_us(node.start_us);
  message.set_duration_us(node.duration_us);
  const auto set_tensors = [](const std::string& values, const std::string& types, Tensors& tensors) {
    tensors.set_values(values);
    tensors.set_shapes("[]");
    tensors.set_types(types);
  };
  set_tensors(node.input_values.empty() ? "[]" : node.input_values,
              node.input_types.empty() ? "[]" : node.input_types, *message.mutable_inputs());
  set_tensors(node.output_values.empty() ? "[]" : node.output_values, "[]", *message.mutable_outputs());
  set_attributes(node.attributes, message);
  append_message(message, bytes);
}

}  // namespace commlens::formats::chakra
