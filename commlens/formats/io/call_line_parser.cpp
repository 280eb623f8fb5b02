#include "commlens/formats/io/call_line_parser.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <simdjson.h>

#include "commlens/formats/io/call_fields.hpp"

namespace commlens::formats {
namespace {

namespace dom = simdjson::dom;

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
    return wanted_->set_text(record_, value) ? done() : wrong_type();
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
      return refuse(fmt::format("field \"{}\" appears twice", call_fields()[index].key));
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

/// Ready for the next line; what it has allocated stays.
void clear(CallRecord& record) {
  std::vector<Rank> ranks = std::move(record.group.ranks);
  ranks.clear();
  record = CallRecord{};
  record.group.ranks = std::move(ranks);
}

bool take_ranks(const dom::element& value, std::vector<Rank>& ranks) {
  dom::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) {
    return false;
  }
  for (const dom::element element : array) {
    std::int64_t rank = 0;
    if (!element.is_int64() || element.get_int64().get(rank) != simdjson::SUCCESS) {
      return false;
    }
    ranks.push_back(Rank{rank});
  }
  return true;
}

bool take_label(const dom::element& value, std::string& text) {
  std::string_view words;
  std::uint64_t whole = 0;
  if (value.get_string().get(words) == simdjson::SUCCESS) {
    text = words;
    return true;
  }
  if (!value.is_uint64() || value.get_uint64().get(whole) != simdjson::SUCCESS) {
    return false;  // negative numbers and others: the slow parser knows
  }
  text = std::to_string(whole);
  return true;
}

/// Whether the value is what the field must have; only then it is taken.
bool take_value(const dom::element& value, const CallField& field, CallRecord& record) {
  if (value.is_null()) {
    record.iteration_unknown = record.iteration_unknown || field.key == "iteration";
    record.root_unknown = record.root_unknown || field.key == "root";
    return true;
  }
  if (const auto* const number = std::get_if<CallField::Number>(&field.member)) {
    std::int64_t whole = 0;
    const bool is_taken = value.is_int64() && value.get_int64().get(whole) == simdjson::SUCCESS;
    record.** number = whole;
    return is_taken;
  }
  if (const auto* const label = std::get_if<CallField::Label>(&field.member)) {
    return take_label(value, record.*(label->text));
  }
  if (const auto* const flag = std::get_if<CallField::Flag>(&field.member)) {
    bool is_set = false;
    const bool is_taken = value.get_bool().get(is_set) == simdjson::SUCCESS;
    record.** flag = is_set;
    return is_taken;
  }
  if (const auto* const ranks = std::get_if<CallField::Ranks>(&field.member)) {
    (record.**ranks).is_given = true;
    return take_ranks(value, (record.**ranks).ranks);
  }
  std::string_view words;
  return value.get_string().get(words) == simdjson::SUCCESS && field.set_text(record, words);
}

}  // namespace

/// Takes a line that is right and plain. What it does not take is read by parse_call_line, which has the last
/// word and the messages.
class CallLineParser::Fast {
 public:
  bool take(std::string_view line, CallRecord& record) {
    clear(record);
    if (line.find('\\') != std::string_view::npos) {  // libraries differ in the escapes that they refuse
      return false;
    }
    if (text_.size() < line.size() + simdjson::SIMDJSON_PADDING) {
      text_.resize(line.size() * 2 + simdjson::SIMDJSON_PADDING);
    }
    std::copy(line.begin(), line.end(), text_.begin());
    dom::object object;
    return parser_.parse(text_.data(), line.size(), false).get_object().get(object) == simdjson::SUCCESS &&
           take_fields(object, record);
  }

 private:
  bool take_fields(const dom::object& object, CallRecord& record) {
    std::uint32_t seen = 0;
    std::size_t place = 0;
    for (const auto& [key, value] : object) {
      const CallField* const field = field_at(place++, key);
      if (field == nullptr) {
        if (value.is_object() || value.is_array()) {  // how deep is not known
          return false;
        }
        continue;
      }
      const std::uint32_t bit = std::uint32_t{1} << (field - call_fields().data());
      if ((seen & bit) != 0 || !take_value(value, *field, record)) {
        return false;
      }
      seen |= bit;
    }
    return true;
  }

  /// The field of that name, or null; most lines have the fields of the line before at the same places.
  const CallField* field_at(std::size_t place, std::string_view key) {
    if (place < previous_.size() && previous_[place]->key == key) {
      return previous_[place];
    }
    const auto fields = call_fields();
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const CallField& field) { return field.key == key; });
    if (found == fields.end()) {
      return nullptr;
    }
    if (place < fields.size()) {
      previous_.resize(std::max(previous_.size(), place + 1), &fields.front());
      previous_[place] = &*found;
    }
    return &*found;
  }

  dom::parser parser_;
  std::vector<char> text_;                  // the line, and after it what simdjson may read
  std::vector<const CallField*> previous_;  // by place in the line
};

Result<void> parse_call_line(std::string_view line, CallRecord& record) {
  record = CallRecord{};
  LineFields fields(record);
  if (!nlohmann::json::sax_parse(line.begin(), line.end(), &fields)) {
    return failure(std::move(fields.error));
  }
  return {};
}

CallLineParser::CallLineParser() : fast_(std::make_unique<Fast>()) {}
CallLineParser::~CallLineParser() = default;

Result<void> CallLineParser::parse(std::string_view line, CallRecord& record) {
  return fast_->take(line, record) ? Result<void>{} : parse_call_line(line, record);
}

}  // namespace commlens::formats
