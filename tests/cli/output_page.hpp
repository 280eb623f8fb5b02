#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace commlens::test_support {

/// A line of the tables of docs/output.md.
struct DocumentedKey {
  std::string unit;
  std::string scope;
  std::set<std::string> verbs;
};

/// All of them by key: "| `calls` | count | one rank | calls of … | predict, summary |".
std::map<std::string, DocumentedKey> documented_keys();

/// A file of the repository.
std::filesystem::path source_file(const std::string& name);

std::vector<std::string> split_at(const std::string& text, char separator);

}  // namespace commlens::test_support
