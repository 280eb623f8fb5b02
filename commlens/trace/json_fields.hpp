#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/result.hpp"

namespace commlens {

/// The JSON value that `text` is; fails when it is none or is nested deeper than any file of a trace.
Result<nlohmann::json> parse_json(std::string_view text);

/// Takes typed fields out of JSON objects. The first thing that is wrong is kept in `error`; from then on
/// every answer is a harmless default, and the caller looks at `error` before it uses them.
class JsonFields {
 public:
  using Range = std::pair<std::int64_t, std::int64_t>;  // both included

  std::optional<std::string> error;

  void fail(const std::string& where, std::string_view what);

  /// The integer `key`, or `usual` when it is absent and there is a usual value.
  std::int64_t number(const nlohmann::json& object, const std::string& where, const char* key, Range range,
                      std::optional<std::int64_t> usual = {});
  bool flag(const nlohmann::json& object, const std::string& where, const char* key, bool usual);
  std::string text(const nlohmann::json& object, const std::string& where, const char* key);
  const nlohmann::json& array(const nlohmann::json& object, const std::string& where, const char* key);
  /// Null when `key` is absent, which is an error unless `is_optional`.
  const nlohmann::json* find(const nlohmann::json& object, const std::string& where, const char* key,
                             bool is_optional);

  /// What `parse` makes of the word `key`.
  template <typename Parse>
  auto word(const nlohmann::json& object, const std::string& where, const char* key, const Parse& parse) {
    const std::string name = text(object, where, key);
    const auto value = parse(name);
    if (!value) {
      fail(where, fmt::format("\"{}\" is \"{}\", which is unknown", key, name.substr(0, 40)));
    }
    return value.value_or(typename decltype(value)::value_type{});
  }
};

}  // namespace commlens
