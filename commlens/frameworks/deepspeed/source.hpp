#pragma once
#include "commlens/frameworks/source_text.hpp"

namespace commlens::deepspeed {

/// The release whose files and lines most rules cite, and the one that those of newer parts cite.
inline constexpr Literal k_cited_version{"0.14.0"};
inline constexpr Literal k_newest_cited_version{"0.19.8"};
/// A file and line of them.
template <Literal Place>
inline constexpr const char* k_source = k_source_text<"deepspeed", k_cited_version, Place>;
template <Literal Place>
inline constexpr const char* k_new_source = k_source_text<"deepspeed", k_newest_cited_version, Place>;

}  // namespace commlens::deepspeed
