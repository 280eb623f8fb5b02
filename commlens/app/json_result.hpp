#pragma once
#include <string>

#include <nlohmann/json.hpp>

#include "commlens/app/format.hpp"

namespace commlens {

/// A verb's result as printed, with U+FFFD for invalid UTF-8: names of files and texts of traces may hold any
/// bytes.
std::string json_result(const nlohmann::ordered_json& json);

/// A verb's result in the requested format, by one of three functions: its text, its JSON or its CSV.
template <typename Text, typename ToJson, typename Csv>
std::string in_format(Format format, const Text& text, const ToJson& json, const Csv& csv) {
  return format == Format::table ? text() : format == Format::json ? json_result(json()) : csv();
}

}  // namespace commlens
