#include "commlens/base/modules.hpp"

#include <cstdlib>
#include <system_error>

namespace commlens {

std::vector<std::filesystem::path> module_folders() {
  std::vector<std::filesystem::path> folders;
  if (const char* given = std::getenv("COMMLENS_MODULE_PATH"); given != nullptr && *given != '\0') {
    folders.emplace_back(given);
  }
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!program.empty()) {
    folders.push_back(program.parent_path());
    folders.push_back(program.parent_path().parent_path() / "lib" / "commlens");
  }
  return folders;
}

}  // namespace commlens
