#pragma once
#include "commlens/frameworks/source_text.hpp"

namespace commlens::megatron {

/// The tag that the rules follow.
inline constexpr Literal k_version{"core_v0.7.0"};
/// A file and line of it, as rules cite them.
template <Literal Place>
inline constexpr const char* k_source = k_source_text<"megatron", k_version, Place>;

}  // namespace commlens::megatron
