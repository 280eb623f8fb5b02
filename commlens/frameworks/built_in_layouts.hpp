#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "commlens/base/embedded_file.hpp"

namespace commlens {

/// The files of examples/megatron: whole jobs as public recipes lay them out. Each names its recipe.
std::span<const EmbeddedFile> built_in_layouts();
/// "megatron/deepseek-v3" …, without the endings of the files.
std::vector<std::string_view> built_in_layout_names();
/// The file of that name; null if there is none.
const EmbeddedFile* built_in_layout(std::string_view name);

}  // namespace commlens
