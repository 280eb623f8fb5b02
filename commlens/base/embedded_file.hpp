#pragma once
#include <string_view>

namespace commlens {

/// A file that is part of the program (cmake/embedded_files.cmake).
struct EmbeddedFile {
  std::string_view name;  // with its folder: "megatron/llama3-70b.yaml"
  std::string_view text;
};

}  // namespace commlens
