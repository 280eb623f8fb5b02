#include "commlens/formats/chakra/names.hpp"

#include <algorithm>
#include <array>

namespace commlens::formats::chakra {
namespace {

/// By the number of the collective.
constexpr std::array<CommKind, 10> k_comm_types = {
    CommKind::all_reduce,     CommKind::reduce,    CommKind::all_gather, CommKind::other,
    CommKind::other,          CommKind::broadcast, CommKind::all_to_all, CommKind::reduce_scatter,
    CommKind::reduce_scatter, CommKind::barrier};

}  // namespace

std::optional<std::int64_t> chakra_comm_type(CommKind kind) {
  const auto* const found = std::find(k_comm_types.begin(), k_comm_types.end(), kind);
  return found == k_comm_types.end() || kind == CommKind::other ? std::nullopt
                                                                : std::optional(found - k_comm_types.begin());
}

std::optional<CommKind> kind_of_comm_type(std::int64_t comm_type) {
  if (comm_type < 0 || comm_type >= static_cast<std::int64_t>(k_comm_types.size())) {
    return std::nullopt;
  }
  return k_comm_types.at(static_cast<std::size_t>(comm_type));
}

}  // namespace commlens::formats::chakra
