#include "tests/fuzz/input_file.hpp"

#include <fstream>

#include <unistd.h>

#include "commlens/base/check.hpp"

namespace commlens {

InputDirectory::InputDirectory() {
  static int made = 0;
  ++made;
  const std::filesystem::path memory = "/dev/shm";
  std::error_code status;
  const bool has_memory = std::filesystem::is_directory(memory, status);
  path_ = (has_memory ? memory : std::filesystem::temp_directory_path()) /
          ("commlens-fuzz-" + std::to_string(getpid()) + "-" + std::to_string(made));
  std::filesystem::create_directories(path_);
}

InputDirectory::~InputDirectory() {
  std::error_code status;
  std::filesystem::remove_all(path_, status);
}

std::filesystem::path InputDirectory::write(const std::string& name, std::string_view content) const {
  const std::filesystem::path file = path_ / name;
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(content.data(), static_cast<std::streamsize>(content.size()));
  stream.close();
  COMMLENS_CHECK(stream.good(), "the fuzz input must reach the reader unchanged");
  return file;
}

}  // namespace commlens
