#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace commlens {

/// A directory in memory (or in the temporary directory where there is none) that the process removes when it
/// ends.
class InputDirectory {
 public:
  InputDirectory();
  ~InputDirectory();
  InputDirectory(const InputDirectory&) = delete;
  InputDirectory& operator=(const InputDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Writes a file of that name and returns its path.
  std::filesystem::path write(const std::string& name, std::string_view content) const;

 private:
  std::filesystem::path path_;
};

/// The bytes libFuzzer hands over, as text.
inline std::string_view as_text(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

/// The reader that a program called DIRECTORY/fuzz_NAME tests: "NAME". One program has a name for each reader
/// of its kind.
inline std::string fuzz_target_name(std::string_view program) {
  const std::size_t at = program.rfind("fuzz_");
  return std::string(at == std::string_view::npos ? program
                                                  : program.substr(at + std::string_view("fuzz_").size()));
}

}  // namespace commlens
