#include "commlens/app/record_preload.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/text.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

bool is_other_recorder(std::string_view library) {
  return fs::path(library).filename().string().starts_with("libcommlens-capture-mpi-");
}

/// ":LIBRARY" for each library that LD_PRELOAD names now; they end at colons and spaces (ld.so(8)).
std::string others_preloaded() {
  const std::string preloaded = variable("LD_PRELOAD");
  std::string_view rest = preloaded;
  std::string others;
  while (!rest.empty()) {
    const std::string_view library = rest.substr(0, rest.find_first_of(": "));
    rest.remove_prefix(std::min(library.size() + 1, rest.size()));
    if (!library.empty() && !is_other_recorder(library)) {
      others += fmt::format(":{}", library);
    }
  }
  return others;
}

std::string quoted(const std::string& word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) {
    return word;
  }
  return fmt::format("'{}'", replaced(word, "'", R"('\'')"));
}

}  // namespace

Result<fs::path> preloadable(fs::path library) {
  if (library.string().find_first_of(":;") == std::string::npos) {
    return library;
  }
  return failure(
      fmt::format("{}: the loader takes no library whose path has a colon or a semicolon; move commlens, "
                  "or name another directory in COMMLENS_MODULE_PATH",
                  library.string()));
}

// A name without a slash is looked for in LD_LIBRARY_PATH, where directories may have spaces.
std::vector<std::string> preload_variables(const fs::path& library) {
  const std::string others = others_preloaded();
  if (library.string().find(' ') == std::string::npos) {
    return {fmt::format("LD_PRELOAD={}{}", library.string(), others)};
  }
  const std::string directories = variable("LD_LIBRARY_PATH");
  return {fmt::format("LD_PRELOAD={}{}", library.filename().string(), others),
          fmt::format("LD_LIBRARY_PATH={}{}{}", library.parent_path().string(),
                      directories.empty() ? "" : ":", directories)};
}

std::string as_typed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", quoted(word));
  }
  return text;
}

}  // namespace commlens
