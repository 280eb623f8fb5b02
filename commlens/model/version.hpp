#pragma once
#include <string_view>

namespace commlens {

/// Whether a version that a file names is the one that was recorded. Versions are compared by their parts:
/// * releases: "0.14.0", "v0.14.0", "core_v0.7.0". Every part counts, so that "0.14" (which may be 0.14.5),
///   "0.14.0rc9" and "core_v0" are not 0.14.0 or core_v0.7.0. What was recorded as a line of two parts,
///   "1.13", is every release of it, "1.13.1" but not "1.131". A label of the build ("1.13.1+cu117", "+cpu",
///   "+rocm5.2") says nothing about the version; any other ("0.14.0+4bc6670") is another source.
/// * commits: hexadecimal, one the beginning of the other, at least seven digits of each.
/// A prefix such as "core_v" and "core_r" is part of the name: with another one, or none, it is another
/// version.
bool is_same_version(std::string_view named, std::string_view recorded);

}  // namespace commlens
