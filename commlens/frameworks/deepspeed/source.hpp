#pragma once
#include "commlens/frameworks/source_text.hpp"

namespace commlens::deepspeed {

/// The version that the rules follow.
inline constexpr Literal k_version{"0.14.0"};
/// A file and line of it, as rules cite them.
template <Literal place>
inline constexpr const char* source = source_text<"deepspeed", k_version, place>;

}  // namespace commlens::deepspeed
