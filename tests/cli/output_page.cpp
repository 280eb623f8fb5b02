#include "tests/cli/output_page.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace commlens::test_support {
namespace {

std::string trimmed(std::string text, std::string_view around = " `") {
  text.erase(0, std::min(text.find_first_not_of(around), text.size()));
  text.erase(text.find_last_not_of(around) + 1);
  return text;
}

}  // namespace

std::filesystem::path source_file(const std::string& name) {
  const char* const directory = std::getenv("COMMLENS_SOURCE_DIR");
  return std::filesystem::path(directory == nullptr ? "." : directory) / name;
}

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

std::map<std::string, DocumentedKey> documented_keys() {
  std::map<std::string, DocumentedKey> keys;
  std::ifstream page(source_file("docs/output.md"));
  for (std::string line; std::getline(page, line);) {
    const std::vector<std::string> cells = split_at(line, '|');
    if (!line.starts_with("| `") || cells.size() < 6) {
      continue;
    }
    DocumentedKey& entry = keys[trimmed(cells[1])];
    entry.unit = trimmed(cells[2]);
    entry.scope = trimmed(cells[3]);
    for (const std::string& verb : split_at(cells[5], ',')) {
      entry.verbs.insert(trimmed(verb));
    }
  }
  return keys;
}

}  // namespace commlens::test_support
