#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace commlens::formats {

/// A member of a JSON object; null when `object` is none or lacks it.
const nlohmann::json* json_member(const nlohmann::json& object, const char* key);

/// The same; a JSON null when there is none.
const nlohmann::json& json_at(const nlohmann::json& object, const char* key);

/// A value that is an integer below 2^63.
std::optional<std::int64_t> json_whole(const nlohmann::json& value);

/// A value that is a string; empty when it is something else.
std::string json_text(const nlohmann::json& value);

/// A value that is a string or an integer, which some writers put for a name; empty when it is neither.
std::string json_word(const nlohmann::json& value);

/// A member that is an integer below 2^63.
std::optional<std::int64_t> json_whole(const nlohmann::json& object, const char* key);

/// A member that is a number.
std::optional<double> json_number(const nlohmann::json& object, const char* key);

/// A member that is a string; empty when it is something else.
std::string json_text(const nlohmann::json& object, const char* key);

}  // namespace commlens::formats
