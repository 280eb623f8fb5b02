#pragma once
#include "commlens/frameworks/source_text.hpp"

namespace commlens::deepspeed {

/// The version that the rules follow.
inline constexpr Literal k_version{"0.14.0"};
/// A file and line of it, as rules cite them.
template <Literal Place>
inline constexpr const char* k_source = k_source_text<"deepspeed", k_version, Place>;

}  // namespace commlens::deepspeed
