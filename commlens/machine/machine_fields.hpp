#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/config/tree.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// What a quantity may be: its unit, and the range outside which it is a mistake.
struct QuantityRule {
  std::string_view unit;
  double least;
  double most;
  bool is_count = false;  // a whole number
};

/// Reads the fields of a machine file. The first mistake is kept and what follows it does no harm, so that a
/// reader is a list of fields and a look at `error` in the end.
class MachineFields {
 public:
  /// The field of a map; null, with a mistake if it must be there.
  const ConfigNode* field(const ConfigNode& map, const std::string& path, std::string_view key, bool must);
  std::string text(const ConfigNode& map, const std::string& path, std::string_view key, bool must = true);
  /// Of a list of numbers.
  std::vector<double> numbers(const ConfigNode& map, const std::string& path, std::string_view key);
  double number(const ConfigNode& node, const std::string& path);
  /// A whole number from 0 to 1e15.
  std::int64_t count(const ConfigNode& node, const std::string& path);
  std::vector<std::int64_t> counts(const ConfigNode& map, const std::string& path, std::string_view key);
  std::optional<Quantity> quantity(const ConfigNode& map, const std::string& path, std::string_view key,
                                   const QuantityRule& rule, bool must);
  char confidence(const ConfigNode& map, const std::string& path);
  bool flag(const ConfigNode& map, std::string_view key);
  /// Items of a list, empty where it is absent.
  const std::vector<ConfigNode>& items(const ConfigNode& map, const std::string& path, std::string_view key);
  /// Keys of a map other than these are mistakes.
  void known(const ConfigNode& map, const std::string& path, std::initializer_list<std::string_view> keys);
  /// A text that must be one of these.
  std::string choice(const ConfigNode& map, const std::string& path, std::string_view key,
                     std::initializer_list<std::string_view> choices);
  /// Keys that a map, or one below it, has twice are mistakes.
  void each_key_once(const ConfigNode& node, const std::string& path);
  void fail(const ConfigNode& node, const std::string& path, std::string_view reason);
  const std::string& error() const { return error_; }

 private:
  std::string error_;
};

}  // namespace commlens
