#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "commlens/app/reproduce.hpp"

namespace commlens {

using Json = nlohmann::json;
using Where = std::map<std::string, Json>;

/// A figure's JSON as rows.
class Rows {
 public:
  explicit Rows(const Json& figure) {
    for (const Json& column : figure.at("columns")) {
      const Json& values = column.at("values");
      rows_.resize(values.size());
      for (std::size_t at = 0; at < values.size(); ++at) {
        rows_[at][column.at("name")] = values[at];
      }
    }
  }
  std::vector<Where> all(const Where& where) const {
    std::vector<Where> found;
    for (const Where& row : rows_) {
      bool fits = true;
      for (const auto& [key, value] : where) {
        fits = fits && row.contains(key) && row.at(key) == value;
      }
      if (fits) {
        found.push_back(row);
      }
    }
    return found;
  }
  /// The value of `key` in the one row that fits; null where there is none or several.
  Json one(const Where& where, const std::string& key) const {
    const std::vector<Where> found = all(where);
    return found.size() == 1 ? found.front().at(key) : Json();
  }
  double sum(const Where& where, const std::string& key) const {
    double total = 0;
    for (const Where& row : all(where)) {
      total += row.at(key).is_number() ? row.at(key).get<double>() : 0;
    }
    return total;
  }

 private:
  std::vector<Where> rows_;
};

/// One reproduction without training, which all tests of this program read.
struct SharedPages {
  std::filesystem::path directory;
  ReproduceResult result;

  std::filesystem::path file(const std::string& name) const { return directory / name; }
  Json figure(const std::string& id) const;
};
const SharedPages& shared_pages();

Json json_of(const std::filesystem::path& file);

}  // namespace commlens
