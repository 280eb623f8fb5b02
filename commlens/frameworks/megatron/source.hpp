#pragma once
#include "commlens/frameworks/source_text.hpp"

namespace commlens::megatron {

/// The tag whose files and lines the oldest rules cite, and the one that those of newer parts cite.
inline constexpr Literal k_version{"core_v0.7.0"};
inline constexpr Literal k_newest_cited_version{"core_v0.19.0"};
/// A file and line of them.
template <Literal Place>
inline constexpr const char* k_source = k_source_text<"megatron", k_version, Place>;
template <Literal Place>
inline constexpr const char* k_new_source = k_source_text<"megatron", k_newest_cited_version, Place>;

}  // namespace commlens::megatron
