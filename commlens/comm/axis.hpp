#pragma once
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace commlens {

/// A named dimension of a mesh of ranks, along which groups run (docs/glossary.md). Any name is allowed: a
/// framework or a file may define its own. A value of 24 bytes without heap memory, cheap to copy, compare
/// and hash.
class Axis {
 public:
  static constexpr std::size_t k_longest = 22;  // letters of a name

  /// The axis of a group whose axis is not known.
  constexpr Axis() : Axis("unknown") {}
  /// The axis called `name`; aborts if is_name(name) is false. For names in our own code.
  explicit constexpr Axis(std::string_view name);
  /// The axis called `name`, from a user or a file; std::nullopt if is_name(name) is false.
  static std::optional<Axis> from(std::string_view name);
  /// A lowercase letter, then lowercase letters, digits and underscores; k_longest characters at most.
  static constexpr bool is_name(std::string_view name);

  constexpr std::string_view name() const& { return {text_.data(), length_}; }
  std::string_view name() const&& = delete;  // it would outlive its text

  /// Well-known axes ascend in the order of k_known_axes, all others after them by name.
  friend constexpr auto operator<=>(const Axis&, const Axis&) = default;

  // The parallel degrees of the literature, their subdivisions in frameworks, and kinds of groups: named as
  // files and tables have them.
  // NOLINTBEGIN(readability-identifier-naming)
  static const Axis unknown;
  static const Axis dp;            // data parallel
  static const Axis dp_replicate;  // PyTorch HSDP: replicas of the shards
  static const Axis dp_shard;      // PyTorch FSDP: shards
  static const Axis tp;            // tensor parallel
  static const Axis sp;            // sequence parallel
  static const Axis pp;            // pipeline stages
  static const Axis cp;            // context parallel
  static const Axis ep;            // expert parallel
  static const Axis edp;           // data parallel of the experts
  static const Axis model;         // tensor x pipeline of one replica
  static const Axis world;         // all ranks
  static const Axis self;          // one rank
                                   // NOLINTEND(readability-identifier-naming)

 private:
  static constexpr bool may_stand(char letter, bool is_first) {
    const bool is_letter = letter >= 'a' && letter <= 'z';
    return is_letter || (!is_first && (letter == '_' || (letter >= '0' && letter <= '9')));
  }

  std::uint8_t place_ = 0;  // in k_known_axes; its size for other names
  std::array<char, k_longest> text_{};
  std::uint8_t length_ = 0;
};

/// The order in which tables list axes.
constexpr std::array<std::string_view, 13> k_known_axes = {
    "unknown", "dp", "dp_replicate", "dp_shard", "tp",    "sp",  "pp",
    "cp",      "ep", "edp",          "model",    "world", "self"};

[[noreturn]] void no_axis_name();  // aborts: a bad name in our own code

constexpr bool Axis::is_name(std::string_view name) {
  bool fits = !name.empty() && name.size() <= k_longest;
  for (std::size_t at = 0; at < name.size() && fits; ++at) {
    fits = may_stand(name[at], at == 0);
  }
  return fits;
}

constexpr Axis::Axis(std::string_view name) : length_(static_cast<std::uint8_t>(name.size())) {
  if (!is_name(name)) {
    no_axis_name();
  }
  for (std::size_t at = 0; at < name.size(); ++at) {
    text_[at] = name[at];
  }
  while (place_ < k_known_axes.size() && k_known_axes[place_] != name) {
    ++place_;
  }
}

inline constexpr Axis Axis::unknown{"unknown"};
inline constexpr Axis Axis::dp{"dp"};
inline constexpr Axis Axis::dp_replicate{"dp_replicate"};
inline constexpr Axis Axis::dp_shard{"dp_shard"};
inline constexpr Axis Axis::tp{"tp"};
inline constexpr Axis Axis::sp{"sp"};
inline constexpr Axis Axis::pp{"pp"};
inline constexpr Axis Axis::cp{"cp"};
inline constexpr Axis Axis::ep{"ep"};
inline constexpr Axis Axis::edp{"edp"};
inline constexpr Axis Axis::model{"model"};
inline constexpr Axis Axis::world{"world"};
inline constexpr Axis Axis::self{"self"};

constexpr std::string_view name_of(const Axis& axis) { return axis.name(); }
std::string_view name_of(const Axis&&) = delete;

}  // namespace commlens

template <>
struct std::hash<commlens::Axis> {
  std::size_t operator()(const commlens::Axis& axis) const noexcept {
    return std::hash<std::string_view>{}(axis.name());
  }
};
