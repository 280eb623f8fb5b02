#pragma once
#include "commlens/frameworks/source_text.hpp"

namespace commlens::megatron {

/// The tag that the rules follow.
inline constexpr Literal k_version{"core_v0.7.0"};
/// A file and line of it, as rules cite them.
template <Literal place>
inline constexpr const char* source = source_text<"megatron", k_version, place>;

}  // namespace commlens::megatron
