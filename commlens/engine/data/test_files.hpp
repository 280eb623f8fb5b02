#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "commlens/base/test_support.hpp"

namespace commlens::engine {

/// Temporary files of one test.
class TestFiles {
 public:
  const std::filesystem::path& directory() const { return directory_.path(); }
  std::filesystem::path write(const std::string& name, std::string_view content) const;

  /// A vocab.json of all bytes (ids 0-255) and then th 256, the 257, Ġthe 258, he 259, aa 260; and its merges
  /// in that order.
  std::filesystem::path vocabulary() const;
  std::filesystem::path merges() const;

 private:
  test_support::ScratchDirectory directory_;
};

}  // namespace commlens::engine
