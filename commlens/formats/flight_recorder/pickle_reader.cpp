#include "commlens/formats/flight_recorder/pickle_reader.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::flight_recorder {
namespace {

constexpr int k_deepest_json = 16;
constexpr std::size_t k_cost_of_search = 64;  // of an empty dict, in bytes handed out

/// Opcodes that we refuse by name.
constexpr std::array<std::pair<unsigned char, std::string_view>, 18> k_refused = {
    {{'c', "GLOBAL"},
     {'R', "REDUCE"},
     {'b', "BUILD"},
     {'o', "OBJ"},
     {'i', "INST"},
     {'P', "PERSID"},
     {'Q', "BINPERSID"},
     {0x81, "NEWOBJ"},
     {0x82, "EXT1"},
     {0x83, "EXT2"},
     {0x84, "EXT4"},
     {0x8f, "EMPTY_SET"},
     {0x90, "ADDITEMS"},
     {0x91, "FROZENSET"},
     {0x92, "NEWOBJ_EX"},
     {0x93, "STACK_GLOBAL"},
     {0x97, "NEXT_BUFFER"},
     {0x98, "READONLY_BUFFER"}}};

std::optional<unsigned> hexadecimal(std::string_view digits) {
  unsigned value = 0;
  for (const char digit : digits) {
    const bool is_number = digit >= '0' && digit <= '9';
    const char lower = digit >= 'A' && digit <= 'F' ? static_cast<char>(digit - 'A' + 'a') : digit;
    if (!is_number && (lower < 'a' || lower > 'f')) {
      return std::nullopt;
    }
    value = value * 16 + static_cast<unsigned>(is_number ? digit - '0' : lower - 'a' + 10);
  }
  return value;
}

void append_utf8(unsigned point, std::string& text) {
  if (point < 0x80) {
    text += static_cast<char>(point);
    return;
  }
  const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  constexpr std::array<unsigned, 4> first = {0, 0xC0, 0xE0, 0xF0};
  text += static_cast<char>(first.at(static_cast<std::size_t>(more)) | (point >> (6 * more)));
  for (int part = more - 1; part >= 0; --part) {
    text += static_cast<char>(0x80U | ((point >> (6 * part)) & 0x3FU));
  }
}

/// Text of protocol 0: \uXXXX and \UXXXXXXXX in a `unicode` line, and in a quoted line \xXX, \n, \\ and the
/// like.
std::string unescaped(std::string_view line, bool is_quoted) {
  std::string text;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char kind = line[at] == '\\' && at + 1 < line.size() ? line[at + 1] : '\0';
    const std::size_t digits = kind == 'u' ? 4 : kind == 'U' ? 8 : kind == 'x' && is_quoted ? 2 : 0;
    const std::optional<unsigned> point = digits > 0 && at + 2 + digits <= line.size()
                                              ? hexadecimal(line.substr(at + 2, digits))
                                              : std::nullopt;
    if (point && *point <= 0x10FFFF) {
      append_utf8(*point, text);
      at += 1 + digits;
    } else if (kind != '\0' && is_quoted) {
      constexpr std::string_view letters = "ntr";
      constexpr std::string_view meanings = "\n\t\r";
      const std::size_t known = letters.find(kind);
      text += known == std::string_view::npos ? kind : meanings[known];
      ++at;
    } else {
      append_utf8(static_cast<unsigned char>(line[at]), text);  // Latin-1
    }
  }
  return text;
}

}  // namespace

tl::unexpected<Error> PickleReader::wrong(std::string_view what) const {
  return failure(fmt::format("byte {} of the pickle: {}", opcode_, what));
}

Result<PickleReader::Id> PickleReader::read() {
  while (true) {
    const Result<bool> goes_on = step();
    if (!goes_on) {
      return tl::unexpected(goes_on.error());
    }
    if (!*goes_on) {
      return stack_.back();
    }
  }
}

/// One opcode; false after STOP.
Result<bool> PickleReader::step() {
  opcode_ = at_;
  if (at_ == bytes_.size()) {
    return wrong("the file ends before STOP; is it whole?");
  }
  const auto opcode = static_cast<unsigned char>(bytes_[at_++]);
  const auto* const refused = std::find_if(k_refused.begin(), k_refused.end(),
                                           [opcode](const auto& row) { return row.first == opcode; });
  if (refused != k_refused.end()) {
    return wrong(
        fmt::format("opcode {} would make an object or run code; only plain data is read", refused->second));
  }
  switch (opcode) {
    case '.':
      return stack_.size() == 1 && marks_.empty() ? Result<bool>(false)
                                                  : wrong("STOP without exactly one value");
    case 0x80:  // PROTO
    case 0x95:  // FRAME
      if (const Result<std::string_view> skipped = take(opcode == 0x80 ? 1 : 8); !skipped) {
        return tl::unexpected(skipped.error());
      }
      return true;
    case 'N':
    case 'I':
    case 'J':
    case 'K':
    case 'L':
    case 'M':
    case 'F':
    case 'G':
    case 0x88:
    case 0x89:
    case 0x8a:
    case 0x8b:
      return step_number(opcode);
    case 'S':
    case 'T':
    case 'U':
    case 'V':
    case 'X':
    case 'B':
    case 'C':
    case 0x8c:
    case 0x8d:
    case 0x8e:
    case 0x96:
      return step_text(opcode);
    case 'p':
    case 'q':
    case 'r':
    case 'g':
    case 'h':
    case 'j':
    case 0x94:
      return step_memo(opcode);
    default:
      return step_container(opcode);
  }
}

Result<std::string_view> PickleReader::take(std::size_t size) {
  if (size > bytes_.size() - at_) {
    return wrong("the file ends within a value; is it whole?");
  }
  at_ += size;
  return bytes_.substr(at_ - size, size);
}

Result<std::string_view> PickleReader::take_line() {
  const std::size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) {
    return wrong("the file ends within a line; is it whole?");
  }
  const std::string_view line = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return line;
}

Result<std::uint64_t> PickleReader::little_endian(std::size_t size) {
  const Result<std::string_view> bytes = take(size);
  if (!bytes) {
    return tl::unexpected(bytes.error());
  }
  std::uint64_t value = 0;
  for (std::size_t at = 0; at < size; ++at) {
    value |= std::uint64_t{static_cast<unsigned char>((*bytes)[at])} << (8 * at);
  }
  return value;
}

Result<void> PickleReader::push(Value value) {
  if (values_.size() >= limits_.values) {
    return wrong(fmt::format("more than {} values", limits_.values));
  }
  stack_.push_back(static_cast<Id>(values_.size()));
  values_.push_back(std::move(value));
  return {};
}

namespace {

/// The result of an opcode that only pushed something.
Result<bool> goes_on(const Result<void>& pushed) {
  return pushed ? Result<bool>(true) : tl::unexpected(pushed.error());
}

}  // namespace

Result<bool> PickleReader::step_number(unsigned char opcode) {
  Value value{.kind = Kind::integer};
  if (opcode == 'N' || opcode == 0x88 || opcode == 0x89) {
    value.kind = opcode == 'N' ? Kind::none : Kind::boolean;
    value.integer = opcode == 0x88 ? 1 : 0;
    return goes_on(push(std::move(value)));
  }
  if (opcode == 'I' || opcode == 'L' || opcode == 'F') {
    Result<std::string_view> line = take_line();
    if (!line) {
      return tl::unexpected(line.error());
    }
    const bool is_boolean = opcode == 'I' && (*line == "00" || *line == "01");
    if (opcode == 'L' && line->ends_with('L')) {
      line->remove_suffix(1);
    }
    const Result<std::int64_t> whole = parse_integer(*line);
    const Result<double> real = parse_number(*line);
    value.kind = is_boolean      ? Kind::boolean
                 : opcode == 'F' ? Kind::real
                 : whole         ? Kind::integer
                                 : Kind::other;
    value.integer = is_boolean ? (*line == "01" ? 1 : 0) : whole.value_or(0);
    value.real = real.value_or(0);
    return goes_on(push(std::move(value)));
  }
  std::size_t size = opcode == 'K' ? 1 : opcode == 'M' ? 2 : opcode == 'J' ? 4 : 8;
  if (opcode == 0x8a || opcode == 0x8b) {
    const Result<std::uint64_t> length = little_endian(opcode == 0x8a ? 1 : 4);
    if (!length) {
      return tl::unexpected(length.error());
    }
    size = static_cast<std::size_t>(*length);
    if (size > 8) {  // an integer beyond 64 bits, which no field of ours is
      value.kind = Kind::other;
      const Result<std::string_view> skipped = take(size);
      return skipped ? goes_on(push(std::move(value))) : tl::unexpected(skipped.error());
    }
  }
  const Result<std::uint64_t> bits = little_endian(size);
  if (!bits) {
    return tl::unexpected(bits.error());
  }
  if (opcode == 'G') {
    std::uint64_t swapped = 0;
    for (unsigned byte = 0; byte < 8; ++byte) {
      swapped |= ((*bits >> (8 * byte)) & 0xFFU) << (56 - 8 * byte);
    }
    value.kind = Kind::real;
    value.real = std::bit_cast<double>(swapped);
  } else if (opcode == 'K' || opcode == 'M' || size == 0) {
    value.integer = static_cast<std::int64_t>(*bits);
  } else {
    const auto unused = static_cast<int>(64 - 8 * size);  // the sign is the highest bit that is there
    value.integer = static_cast<std::int64_t>(*bits << unused) >> unused;
  }
  return goes_on(push(std::move(value)));
}

Result<void> PickleReader::push_text(std::string_view text) {
  return push({.kind = Kind::text, .text = text});
}

Result<void> PickleReader::push_decoded(std::string text) {
  decoded_.push_back(std::make_unique<std::string>(std::move(text)));
  return push_text(*decoded_.back());
}

Result<bool> PickleReader::step_text(unsigned char opcode) {
  if (opcode == 'S' || opcode == 'V') {
    Result<std::string_view> line = take_line();
    if (!line) {
      return tl::unexpected(line.error());
    }
    const bool is_quoted = opcode == 'S';
    if (is_quoted && (line->size() < 2 || line->front() != line->back())) {
      return wrong("a STRING without its quotes");
    }
    return goes_on(push_decoded(unescaped(is_quoted ? line->substr(1, line->size() - 2) : *line, is_quoted)));
  }
  const bool is_short = opcode == 'U' || opcode == 'C' || opcode == 0x8c;
  const bool is_long = opcode == 0x8d || opcode == 0x8e || opcode == 0x96;
  const Result<std::uint64_t> size = little_endian(is_short ? 1 : is_long ? 8 : 4);
  if (!size) {
    return tl::unexpected(size.error());
  }
  const Result<std::string_view> text = take(static_cast<std::size_t>(*size));
  return text ? goes_on(push_text(*text)) : tl::unexpected(text.error());
}

Result<bool> PickleReader::step_memo(unsigned char opcode) {
  const bool puts = opcode == 'p' || opcode == 'q' || opcode == 'r' || opcode == 0x94;
  std::uint64_t key = memo_.size();  // of MEMOIZE
  if (opcode == 'p' || opcode == 'g') {
    const Result<std::string_view> line = take_line();
    const Result<std::int64_t> number = line ? parse_integer(*line) : tl::unexpected(line.error());
    if (!number || *number < 0) {
      return line ? wrong("no number of the memo") : tl::unexpected(line.error());
    }
    key = static_cast<std::uint64_t>(*number);
  } else if (opcode != 0x94) {
    const Result<std::uint64_t> number = little_endian(opcode == 'q' || opcode == 'h' ? 1 : 4);
    if (!number) {
      return tl::unexpected(number.error());
    }
    key = *number;
  }
  if (!puts) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) {
      return wrong(fmt::format("number {} of the memo was never put there", key));
    }
    stack_.push_back(found->second);
    return stack_.size() <= limits_.values ? Result<bool>(true) : wrong("the stack grows beyond the limit");
  }
  if (stack_.empty() || memo_.size() >= limits_.values) {
    return wrong("nothing to put into the memo, or too much");
  }
  memo_[key] = stack_.back();
  return true;
}

/// The number of values above the last mark, which is removed.
Result<std::size_t> PickleReader::above_mark() {
  if (marks_.empty() || marks_.back() > stack_.size()) {
    return wrong("no MARK");
  }
  const std::size_t count = stack_.size() - marks_.back();
  marks_.pop_back();
  return count;
}

/// Makes a container of the uppermost `count` values.
Result<void> PickleReader::gather(Kind kind, std::size_t count) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() - floor < count || (kind == Kind::dict && count % 2 != 0)) {
    return wrong("too few values for it");
  }
  const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
  Value value{.kind = kind, .items = std::vector<Id>(first, stack_.end())};
  stack_.erase(first, stack_.end());
  return push(std::move(value));
}

/// Adds the uppermost `count` values to the list or dict below them.
Result<void> PickleReader::append(Kind kind, std::size_t count) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() - floor < count + 1 || (kind == Kind::dict && count % 2 != 0)) {
    return wrong("too few values for it");
  }
  const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
  Value& container = values_[*(first - 1)];
  if (container.kind != kind) {
    return wrong(kind == Kind::dict ? "items for what is no dict" : "elements for what is no list");
  }
  container.items.insert(container.items.end(), first, stack_.end());
  stack_.erase(first, stack_.end());
  return {};
}

Result<bool> PickleReader::step_container(unsigned char opcode) {
  const auto of_marked = [this](Result<void> (PickleReader::*make)(Kind, std::size_t),
                                Kind kind) -> Result<bool> {
    const Result<std::size_t> count = above_mark();
    return count ? goes_on((this->*make)(kind, *count)) : tl::unexpected(count.error());
  };
  switch (opcode) {
    case '(':
      marks_.push_back(stack_.size());
      return marks_.size() <= limits_.values ? Result<bool>(true) : wrong("more MARKs than the limit");
    case ')':
      return goes_on(gather(Kind::tuple, 0));
    case ']':
      return goes_on(gather(Kind::list, 0));
    case '}':
      return goes_on(gather(Kind::dict, 0));
    case 0x85:
    case 0x86:
    case 0x87:
      return goes_on(gather(Kind::tuple, opcode - std::size_t{0x84}));
    case 't':
      return of_marked(&PickleReader::gather, Kind::tuple);
    case 'l':
      return of_marked(&PickleReader::gather, Kind::list);
    case 'd':
      return of_marked(&PickleReader::gather, Kind::dict);
    case 'e':
      return of_marked(&PickleReader::append, Kind::list);
    case 'u':
      return of_marked(&PickleReader::append, Kind::dict);
    case 'a':
      return goes_on(append(Kind::list, 1));
    case 's':
      return goes_on(append(Kind::dict, 2));
    default:
      return wrong(fmt::format("0x{:02x} is no opcode of plain data", opcode));
  }
}

Result<std::vector<std::optional<PickleReader::Id>>> PickleReader::find(
    Id dict, std::span<const std::string_view> keys) {
  const Value& value = values_[dict];
  std::vector<std::optional<Id>> found(keys.size());
  handed_out_ += k_cost_of_search + 4 * value.items.size();
  if (handed_out_ > limits_.json_size) {
    return beyond_limit();
  }
  for (std::size_t at = 0; value.kind == Kind::dict && at + 1 < value.items.size(); at += 2) {
    const Value& name = values_[value.items[at]];
    const auto key = name.kind == Kind::text ? std::find(keys.begin(), keys.end(), name.text) : keys.end();
    if (key != keys.end()) {  // the last one counts, as in Python
      found[static_cast<std::size_t>(key - keys.begin())] = value.items[at + 1];
    }
  }
  return found;
}

const std::vector<PickleReader::Id>& PickleReader::elements(Id list) const {
  static const std::vector<Id> none;
  const Value& value = values_[list];
  return value.kind == Kind::list || value.kind == Kind::tuple ? value.items : none;
}

/// False when more is handed out than the limit allows.
bool PickleReader::fill_json(Id id, int depth, nlohmann::json& json) {
  const Value& value = values_[id];
  handed_out_ += 8 + value.text.size();
  if (handed_out_ > limits_.json_size) {
    return false;
  }
  switch (value.kind) {
    case Kind::boolean:
      json = value.integer != 0;
      return true;
    case Kind::integer:
      json = value.integer;
      return true;
    case Kind::real:
      json = value.real;
      return true;
    case Kind::text:
      json = valid_utf8(value.text);
      return true;
    case Kind::list:
    case Kind::tuple:
      json = nlohmann::json::array();
      return depth >= k_deepest_json || std::all_of(value.items.begin(), value.items.end(), [&](Id item) {
               return fill_json(item, depth + 1, json.emplace_back());
             });
    case Kind::dict:
      json = nlohmann::json::object();
      for (std::size_t at = 0; depth < k_deepest_json && at + 1 < value.items.size(); at += 2) {
        nlohmann::json key;
        if (!fill_json(value.items[at], k_deepest_json, key)) {
          return false;
        }
        if (!fill_json(value.items[at + 1], depth + 1,
                       json[key.is_string() ? key.get<std::string>() : key.dump()])) {
          return false;
        }
      }
      return true;
    case Kind::none:
    case Kind::other:
      return true;
  }
  return true;
}

Result<nlohmann::json> PickleReader::json(Id value) {
  nlohmann::json json;
  if (!fill_json(value, 0, json)) {
    return beyond_limit();
  }
  return json;
}

tl::unexpected<Error> PickleReader::beyond_limit() const {
  return failure(fmt::format("the pickle holds more than {} bytes of data", limits_.json_size));
}

}  // namespace commlens::formats::flight_recorder
