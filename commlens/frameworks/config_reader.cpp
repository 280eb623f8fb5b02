#include "commlens/frameworks/config_reader.hpp"

#include <algorithm>

#include "commlens/config/json_document.hpp"
#include "commlens/config/toml_document.hpp"
#include "commlens/config/yaml_document.hpp"

namespace commlens {

bool ConfigFile::has(std::string_view key) const {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool ConfigFile::has_any(bool (*is_wanted)(std::string_view key)) const {
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return is_wanted(key); });
}

Result<ConfigNode> parse_document(const std::string& name, const std::string& content) {
  const ConfigFile file{.path = name};
  if (file.is_json()) {
    return parse_json(name, content);
  }
  return file.is_toml() ? parse_toml(name, content) : parse_yaml(name, content);
}

}  // namespace commlens
