#include "commlens/trace/json_fields.hpp"

namespace commlens {
namespace {

using nlohmann::json;

/// Whether brackets are nested deeper than any file of a trace nests them; what is in strings does not count.
bool is_nested_too_deep(std::string_view text) {
  constexpr int deepest = 16;
  int depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size() && depth <= deepest; ++at) {
    const char c = text[at];
    at += in_string && c == '\\' ? 1 : 0;
    in_string = in_string != (c == '"');
    if (!in_string) {
      depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    }
  }
  return depth > deepest;
}

}  // namespace

Result<json> parse_json(std::string_view text) {
  if (is_nested_too_deep(text)) {
    return failure("nested too deep for a trace");
  }
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return failure("not valid JSON; was the file cut off?");
  }
  return value;
}

void JsonFields::fail(const std::string& where, std::string_view what) {
  if (!error) {
    error = where.empty() ? std::string(what) : fmt::format("{} {}", where, what);
  }
}

std::int64_t JsonFields::number(const json& object, const std::string& where, const char* key, Range range,
                                std::optional<std::int64_t> usual) {
  const json* const value = find(object, where, key, usual.has_value());
  if (value == nullptr) {
    return usual.value_or(range.first);
  }
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() || value->get<std::uint64_t>() <= std::uint64_t{INT64_MAX});
  const std::int64_t result = fits ? value->get<std::int64_t>() : 0;
  if (!fits || result < range.first || result > range.second) {
    fail(where, fmt::format("\"{}\" must be an integer from {} to {}", key, range.first, range.second));
    return usual.value_or(range.first);
  }
  return result;
}

bool JsonFields::flag(const json& object, const std::string& where, const char* key, bool usual) {
  const json* const value = find(object, where, key, true);
  if (value != nullptr && !value->is_boolean()) {
    fail(where, fmt::format("\"{}\" must be true or false", key));
  }
  return value != nullptr && value->is_boolean() ? value->get<bool>() : usual;
}

std::string JsonFields::text(const json& object, const std::string& where, const char* key) {
  const json* const value = find(object, where, key, false);
  if (value != nullptr && !value->is_string()) {
    fail(where, fmt::format("\"{}\" must be a string", key));
  }
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

const json& JsonFields::array(const json& object, const std::string& where, const char* key) {
  static const json empty = json::array();
  const json* const value = find(object, where, key, false);
  if (value != nullptr && !value->is_array()) {
    fail(where, fmt::format("\"{}\" must be an array", key));
  }
  return value != nullptr && value->is_array() ? *value : empty;
}

const json* JsonFields::find(const json& object, const std::string& where, const char* key,
                             bool is_optional) {
  if (!object.is_object()) {
    fail(where, "must be an object");
    return nullptr;
  }
  const auto found = object.find(key);
  if (found == object.end() && !is_optional) {
    fail(where, fmt::format("has no \"{}\"", key));
  }
  return found == object.end() ? nullptr : &*found;
}

}  // namespace commlens
