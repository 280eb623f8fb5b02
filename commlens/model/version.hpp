#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace commlens {

/// Whether a version that a file names is the one that was recorded. Versions are compared by their parts:
/// * releases: "0.14.0", "v0.14.0", "core_v0.7.0". Every part counts, so that "0.14" (which may be 0.14.5),
///   "0.14.0rc9" and "core_v0" are not 0.14.0 or core_v0.7.0. What was recorded as a line of two parts,
///   "1.13", is every release of it, "1.13.1" but not "1.131". A label of the build ("1.13.1+cu117", "+cpu",
///   "+rocm5.2") has no part in the comparison; any other ("0.14.0+4bc6670") is another source.
/// * commits: hexadecimal, one the beginning of the other, at least seven digits of each.
/// A prefix such as "core_v" and "core_r" is part of the name: with another one, or none, it is another
/// version.
bool is_same_version(std::string_view named, std::string_view recorded);

/// A version of a framework, or a range of versions, whose behaviour is known.
struct KnownVersion {
  std::string_view name;      // in messages and traces: "0.14.0", "2.10-2.11"
  std::string_view first;     // the oldest that behaves so; empty: all before `last`
  std::string_view last;      // the newest whose source was read; of two parts: every release of that line
  std::string_view recorded;  // those of which runs were recorded (is_same_version), separated by spaces
};

/// The row of one version of which runs were recorded.
constexpr KnownVersion recorded_version(std::string_view version) {
  return {version, version, version, version};
}

/// How a version that a job names relates to the known one whose rules it takes.
enum class VersionMatch : std::uint8_t {
  recorded,        // runs of it were recorded
  in_range,        // its source was read, no run of it recorded
  nearest_older,   // between the known ones or after them
  oldest,          // before all known ones
  not_comparable,  // a commit that is not listed, or no version at all: the default
};
struct VersionChoice {
  std::size_t index;  // of the known version
  VersionMatch match;
  friend bool operator==(const VersionChoice&, const VersionChoice&) = default;
};

/// The known version whose rules a job takes that names `named` (empty: none, which is the default one).
/// `known` is not empty; releases are in it in ascending order. A release is compared by its parts, missing
/// ones being 0, whatever its prefix ("core_v", "v") and the label of its build; a pre-release ("2.9.0rc1",
/// "2.9.0a0+git7c98e70", "2.9.0.dev20250701") precedes its release and a post-release follows it, as in
/// PEP 440 (https://peps.python.org/pep-0440/).
VersionChoice choose_version(std::span<const KnownVersion> known, std::size_t default_index,
                             std::string_view named);

/// The member `version` of each behaviour of a framework.
template <typename Behaviour, std::size_t Count>
std::vector<KnownVersion> versions_of(const std::array<Behaviour, Count>& behaviours) {
  std::vector<KnownVersion> versions;
  for (const Behaviour& behaviour : behaviours) {
    versions.push_back(behaviour.version);
  }
  return versions;
}

/// The behaviour of the version that a job names (choose_version).
template <typename Behaviour, std::size_t Count>
const Behaviour& behaviour_of(const std::array<Behaviour, Count>& behaviours, std::string_view named,
                              std::size_t default_index = 0) {
  return behaviours.at(choose_version(versions_of(behaviours), default_index, named).index);
}

}  // namespace commlens
