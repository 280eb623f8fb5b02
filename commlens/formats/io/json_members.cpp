#include "commlens/formats/io/json_members.hpp"

namespace commlens::formats {

const nlohmann::json* json_member(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

const nlohmann::json& json_at(const nlohmann::json& object, const char* key) {
  static const nlohmann::json nothing;
  const nlohmann::json* const value = json_member(object, key);
  return value == nullptr ? nothing : *value;
}

std::optional<std::int64_t> json_whole(const nlohmann::json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) {
    return std::nullopt;
  }
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

std::string json_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string json_word(const nlohmann::json& value) {
  return value.is_number_integer() ? value.dump() : json_text(value);
}

std::optional<std::int64_t> json_whole(const nlohmann::json& object, const char* key) {
  return json_whole(json_at(object, key));
}

std::optional<double> json_number(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = json_at(object, key);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::string json_text(const nlohmann::json& object, const char* key) {
  return json_text(json_at(object, key));
}

}  // namespace commlens::formats
