#include "commlens/formats/calls_jsonl/import.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/formats/io/call_fields.hpp"
#include "commlens/formats/io/call_line_parser.hpp"
#include "commlens/formats/io/line_reader.hpp"

namespace commlens {
namespace {

using Field = CallField;

/// Receives the parts of one line from nlohmann's parser (which does not recurse) and fills a record.
class LineFields {
 public:
  using Json = nlohmann::json;
  explicit LineFields(CallRecord& record) : record_(record) {}

  bool null() {
    if (wanted_ == nullptr) {
      return at_value("null");
    }
    record_.iteration_unknown = record_.iteration_unknown || wanted_->key == "iteration";
    record_.root_unknown = record_.root_unknown || wanted_->key == "root";
    return done();
  }
  bool boolean(bool value) {
    if (wanted_ == nullptr) {
      return at_value("a boolean");
    }
    const Field::Flag* const member = std::get_if<Field::Flag>(&wanted_->member);
    if (member == nullptr) {
      return wrong_type();
    }
    record_.*(*member) = value;
    return done();
  }
  bool number_integer(Json::number_integer_t value) { return number(value); }
  bool number_unsigned(Json::number_unsigned_t value) {
    if (label() != nullptr) {
      return string_of_label(std::to_string(value));
    }
    return value > INT64_MAX ? number_float(0, {}) : number(static_cast<std::int64_t>(value));
  }
  bool number_float(Json::number_float_t /*value*/, const std::string& /*text*/) {
    return wanted_ == nullptr ? at_value("a number") : wrong_type();
  }
  bool string(std::string& value) {
    if (wanted_ == nullptr) {
      return at_value("a string");
    }
    if (label() != nullptr) {
      return string_of_label(value);
    }
    const Field::Text* const member = std::get_if<Field::Text>(&wanted_->member);
    if (member == nullptr) {
      return wrong_type();
    }
    record_.*(*member) = value;
    return done();
  }
  bool binary(Json::binary_t& /*value*/) { return refuse("binary values are no JSON"); }
  bool start_object(std::size_t /*size*/) {
    if (wanted_ != nullptr) {
      return wrong_type();
    }
    return deeper();
  }
  bool end_object() { return shallower(); }
  bool start_array(std::size_t /*size*/) {
    if (wanted_ == nullptr) {
      return depth_ == 0 ? at_value("an array") : deeper();
    }
    const Field::Ranks* const member = std::get_if<Field::Ranks>(&wanted_->member);
    if (member == nullptr || in_ranks_) {
      return wrong_type();
    }
    in_ranks_ = true;
    (record_.*(*member)).is_given = true;
    return deeper();
  }
  bool end_array() {
    if (in_ranks_) {
      in_ranks_ = false;
      wanted_ = nullptr;
    }
    return shallower();
  }
  bool key(std::string& name) {
    if (depth_ != 1) {
      return true;
    }
    for (std::size_t index = 0; index < call_fields().size(); ++index) {
      if (call_fields()[index].key == name) {
        return want(index);
      }
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/, const Json::exception& reason) {
    // nlohmann: "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error while …"
    const std::string_view text = reason.what();
    const std::size_t start = text.find(": ");
    return refuse(fmt::format("not valid JSON at column {}: {}", position,
                              text.substr(start == std::string_view::npos ? 0 : start + 2, 160)));
  }
  std::string error;

 private:
  static constexpr int k_deepest = 64;

  bool refuse(std::string message) {
    error = std::move(message);
    return false;
  }
  bool wrong_type() {
    return refuse(fmt::format("field \"{}\" must be {}", wanted_->key, expected_value(*wanted_)));
  }
  bool at_value(std::string_view what) {
    return depth_ == 0 ? refuse(fmt::format("the line is {}, expected an object {{\"rank\": …}}", what))
                       : true;
  }
  bool deeper() {
    return ++depth_ > k_deepest ? refuse(fmt::format("nested more than {} levels deep", k_deepest)) : true;
  }
  bool shallower() {
    --depth_;
    return true;
  }
  bool want(std::size_t index) {
    if ((seen_ >> index & 1U) != 0) {
      return refuse(fmt::format("field \"{}\" stands twice", call_fields()[index].key));
    }
    seen_ |= std::uint32_t{1} << index;
    wanted_ = &call_fields()[index];
    return true;
  }
  const Field::Label* label() const {
    return wanted_ == nullptr ? nullptr : std::get_if<Field::Label>(&wanted_->member);
  }
  bool string_of_label(const std::string& text) {
    record_.*(label()->text) = text;
    return done();
  }
  bool number(std::int64_t value) {
    if (wanted_ == nullptr) {
      return at_value("a number");
    }
    if (label() != nullptr) {
      return string_of_label(std::to_string(value));
    }
    if (in_ranks_) {
      (record_.*std::get<Field::Ranks>(wanted_->member)).ranks.push_back(Rank{value});
      return true;
    }
    const Field::Number* const member = std::get_if<Field::Number>(&wanted_->member);
    if (member == nullptr) {
      return wrong_type();
    }
    record_.*(*member) = value;
    return done();
  }
  bool done() {
    if (in_ranks_) {
      return wrong_type();
    }
    wanted_ = nullptr;
    return true;
  }

  CallRecord& record_;
  const Field* wanted_ = nullptr;  // the field whose value comes next; null inside what we skip
  bool in_ranks_ = false;
  int depth_ = 0;
  std::uint32_t seen_ = 0;
};

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }

/// Whether `line` has the key, by its text (the line may be cut off).
bool has_key(std::string_view line, std::string_view key) {
  const std::string quoted = fmt::format("\"{}\"", key);
  for (std::size_t at = line.find(quoted); at != std::string_view::npos; at = line.find(quoted, at + 1)) {
    const std::size_t next = line.find_first_not_of(" \t", at + quoted.size());
    if (next != std::string_view::npos && line[next] == ':') {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<void> parse_call_line(std::string_view line, CallRecord& record) {
  record = CallRecord{};
  LineFields fields(record);
  if (!nlohmann::json::sax_parse(line.begin(), line.end(), &fields)) {
    return failure(std::move(fields.error));
  }
  return {};
}

Result<Trace> read_calls_jsonl(const std::filesystem::path& path) {
  return TextSource::open(path).and_then(
      [](TextSource&& source) -> Result<Trace> { return read_calls_jsonl(std::move(source)); });
}

Result<Trace> read_calls_jsonl(TextSource source) {
  const std::string name = source.name();
  CallBuilder calls("calls JSON Lines", name);
  LineReader lines(std::move(source));
  CallLineParser parser;
  CallRecord record;
  std::int64_t count = 0;
  while (true) {
    std::string_view line;
    const Result<bool> more = lines.next(line);
    if (!more) {
      return tl::unexpected(more.error());
    }
    if (!*more) {
      break;
    }
    if (is_blank(line)) {
      continue;
    }
    Result<void> taken = parser.parse(line, record);
    if (taken) {
      taken = calls.add(record);
      ++count;
    }
    if (!taken) {
      return failure(fmt::format("{}: {}{}", lines.where(), taken.error().message,
                                 lines.line_is_whole() ? "" : " (the file ends inside this line)"));
    }
  }
  if (count == 0) {
    return failure(fmt::format("{}: no calls in it", name));
  }
  return calls.finish();
}

bool sniff_calls_jsonl(const std::filesystem::path& /*path*/, std::string_view head) {
  if (head.starts_with("\xef\xbb\xbf")) {
    head.remove_prefix(3);
  }
  const std::size_t start = head.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || head[start] != '{') {
    return false;
  }
  const std::string_view line = head.substr(start, head.find('\n', start) - start);
  return has_key(line, "op") && (has_key(line, "rank") || has_key(line, "input_bytes"));
}

}  // namespace commlens
