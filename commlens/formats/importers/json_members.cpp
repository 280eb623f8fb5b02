#include "commlens/formats/importers/json_members.hpp"

namespace commlens {

const nlohmann::json* json_member(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::optional<std::int64_t> json_whole(const nlohmann::json& object, const char* key) {
  const nlohmann::json* const value = json_member(object, key);
  if (value == nullptr || !value->is_number_integer()) {
    return std::nullopt;
  }
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > INT64_MAX) {
    return std::nullopt;
  }
  return value->get<std::int64_t>();
}

std::optional<double> json_number(const nlohmann::json& object, const char* key) {
  const nlohmann::json* const value = json_member(object, key);
  return value != nullptr && value->is_number() ? std::optional(value->get<double>()) : std::nullopt;
}

std::string json_text(const nlohmann::json& object, const char* key) {
  const nlohmann::json* const value = json_member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

}  // namespace commlens
