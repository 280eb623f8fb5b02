#include "commlens/frameworks/presets.hpp"

#include "commlens/frameworks/frameworks.hpp"

namespace commlens {

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const ConfigReader& reader : config_readers()) {
    names.insert(names.end(), reader.preset_names.begin(), reader.preset_names.end());
  }
  return names;
}

std::optional<Job> preset(std::string_view name) {
  for (const ConfigReader& reader : config_readers()) {
    std::optional<Job> job = reader.preset == nullptr ? std::nullopt : reader.preset(name);
    if (job) {
      return job;
    }
  }
  return std::nullopt;
}

}  // namespace commlens
