#include "commlens/base/modules.hpp"

#include <cstdlib>
#include <system_error>

#include <dlfcn.h>

namespace commlens {
namespace {

/// The file that holds this code: libcommlens.so, or a program that is linked with it.
std::filesystem::path own_file() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&module_directories), &info) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  std::error_code error;
  std::filesystem::path file = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::filesystem::path() : file;
}

}  // namespace

std::vector<std::filesystem::path> module_directories() {
  std::vector<std::filesystem::path> directories;
  if (const char* given = std::getenv("COMMLENS_MODULE_PATH"); given != nullptr && *given != '\0') {
    directories.emplace_back(given);
  }
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!program.empty()) {
    directories.push_back(program.parent_path());
    directories.push_back(program.parent_path().parent_path() / "lib" / "commlens");
  }
  if (const std::filesystem::path library = own_file(); !library.empty() && library != program) {
    directories.push_back(library.parent_path());
    directories.push_back(library.parent_path() / "commlens");                // lib/
    directories.push_back(library.parent_path().parent_path() / "commlens");  // lib/x86_64-linux-gnu/
  }
  return directories;
}

std::optional<std::filesystem::path> module_file(const std::string& name) {
  for (const std::filesystem::path& directory : module_directories()) {
    std::error_code ignored;
    if (std::filesystem::exists(directory / name, ignored)) {
      return directory / name;
    }
  }
  return std::nullopt;
}

std::string searched_for_modules() {
  std::string text;
  for (const std::filesystem::path& directory : module_directories()) {
    text += (text.empty() ? "" : ", ") + directory.string();
  }
  return text;
}

}  // namespace commlens
