#pragma once
#include <string_view>

namespace commlens {

/// A file that is part of the program (cmake/embedded_files.cmake).
struct EmbeddedFile {
  std::string_view name;  // with its folder: "megatron/llama3-70b.yaml"
  std::string_view text;

  /// "llama3-70b".
  std::string_view stem() const {
    const std::string_view file = name.substr(name.rfind('/') + 1);
    return file.substr(0, file.rfind('.'));
  }
};

}  // namespace commlens
