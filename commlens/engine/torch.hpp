#pragma once

/// The only include of LibTorch: the precompiled header of this directory. Nothing outside engine/ includes
/// it.
#ifdef __clang__
// LibTorch 1.13 has std::vector of a type that is complete only later. The functions of a C++20 vector are
// constexpr, and clang compiles such a function where it first meets it; as plain inline functions they wait
// for the end of the file, as GCC's do. Only the sanitizer builds use clang.
#include <string>
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
// Declared constexpr by <string> already.
#define __fill_a1 __fill_a1_of_bits
#include <vector>
#undef __fill_a1
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr
#endif
#include <torch/torch.h>

/// Whether LibTorch has this version or a later one, for features of later versions.
#define COMMLENS_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))
