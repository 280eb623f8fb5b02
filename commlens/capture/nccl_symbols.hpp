#pragma once
#include <span>
#include <string_view>

namespace commlens::capture {

/// The function `name` as the program's other libraries have it, wherever they are visible: after this
/// library in the order of the loader, else in a loaded library whose file name begins with one of
/// `libraries`. Null when there is none.
void* loaded_symbol(const char* name, std::span<const std::string_view> libraries);

/// The number of the GPU that this thread has chosen (CUDA's driver, or HIP); -1 when there is none.
int current_device();

}  // namespace commlens::capture
