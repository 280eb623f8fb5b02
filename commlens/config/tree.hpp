#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens {

/// A value of a configuration file, whatever the file's syntax: what all readers read. Scalars stay text
/// until a reader asks for a type.
struct ConfigNode {
  enum class Kind : std::uint8_t { null, scalar, list, map };
  Kind kind = Kind::null;
  bool quoted = false;  // scalar: written as a string, so it is no number and no boolean
  int line = 0;         // 1-based
  std::string file;
  std::string text;               // scalar
  std::vector<std::string> keys;  // map: keys[i] names items[i]; may repeat
  std::vector<ConfigNode> items;  // list and map

  std::string where() const;  // "file:line"
};

/// The last value of `key` in a map, or null.
const ConfigNode* find(const ConfigNode& map, std::string_view key);

/// Adds an entry to a map.
void append(ConfigNode& map, std::string key, ConfigNode value);

/// The scalar as a type; the error completes "'key' …" ("must be an integer, it is 'abc'").
/// Integers may be written 500000000, 500_000_000, 5e8 or 500000000.0; booleans true, True, yes, on and
/// so on.
Result<std::int64_t> as_integer(const ConfigNode& node);
Result<double> as_number(const ConfigNode& node);
Result<bool> as_boolean(const ConfigNode& node);
Result<std::string> as_text(const ConfigNode& node);

/// Whether a setting asks for nothing: null, false, 0, "none", an empty list or map, or a map with
/// `enabled: false`.
bool is_off(const ConfigNode& node);

/// GPT-NeoX and Megatron take "num-layers" for "num_layers": writes every key of the tree with underscores.
void use_underscores(ConfigNode& node);

/// Text from a file as a message shows it: on one line, cut after `longest` bytes.
std::string shown_text(std::string_view text, std::size_t longest = 40);

/// Text a file can hold, or why it is none ("is empty", "is not text").
Result<void> check_is_text(std::string_view file, std::string_view content);

}  // namespace commlens
