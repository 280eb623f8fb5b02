#include "commlens/formats/io/call_line_parser.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <simdjson.h>

#include "commlens/formats/calls_jsonl/import.hpp"
#include "commlens/formats/io/call_fields.hpp"

namespace commlens {
namespace {

namespace dom = simdjson::dom;

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
  if (const auto* const text = std::get_if<CallField::Text>(&field.member)) {
    std::string_view words;
    const bool is_taken = value.get_string().get(words) == simdjson::SUCCESS;
    record.** text = words;
    return is_taken;
  }
  if (const auto* const label = std::get_if<CallField::Label>(&field.member)) {
    return take_label(value, record.*(label->text));
  }
  if (const auto* const flag = std::get_if<CallField::Flag>(&field.member)) {
    return value.get_bool().get(record.**flag) == simdjson::SUCCESS;
  }
  GroupField& group = record.*std::get<CallField::Ranks>(field.member);
  group.is_given = true;
  return take_ranks(value, group.ranks);
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
  std::vector<char> text_;                  // the line, and behind it what simdjson may read
  std::vector<const CallField*> previous_;  // by place in the line
};

CallLineParser::CallLineParser() : fast_(std::make_unique<Fast>()) {}
CallLineParser::~CallLineParser() = default;

Result<void> CallLineParser::parse(std::string_view line, CallRecord& record) {
  return fast_->take(line, record) ? Result<void>{} : parse_call_line(line, record);
}

}  // namespace commlens
