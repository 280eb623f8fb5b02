#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace commlens::engine {

/// Files of one test, gone with it.
class TestFiles {
 public:
  TestFiles();
  ~TestFiles();
  TestFiles(const TestFiles&) = delete;
  TestFiles& operator=(const TestFiles&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path write(const std::string& name, std::string_view content) const;

  /// A vocab.json of all bytes (ids 0-255) and then th 256, the 257, Ġthe 258, he 259, aa 260; and its merges
  /// in that order.
  std::filesystem::path vocabulary() const;
  std::filesystem::path merges() const;

 private:
  std::filesystem::path folder_;
};

}  // namespace commlens::engine
