#include "commlens/trace/op_lanes.hpp"

#include <algorithm>

namespace commlens {
namespace {

/// Functions of MPI of kind `other` that all members of the communicator call (MPI 4.0, chapters 6, 8, 12).
bool is_collective_function(std::string_view function) {
  std::string_view name = function;
  if (!name.starts_with("MPI_")) {
    return true;  // of other libraries: gather, scatter
  }
  if (name == "MPI_Win_fence") {
    return true;
  }
  name.remove_prefix(4);
  if (name.starts_with('I')) {
    name.remove_prefix(1);
  }
  const auto begins = [&](std::string_view word) {
    return name.size() >= word.size() &&
           std::equal(word.begin(), word.end(), name.begin(), [](char a, char b) { return a == (b | 0x20); });
  };
  return begins("gather") || begins("scatter") || begins("scan") || begins("exscan") || begins("neighbor");
}

}  // namespace

LaneKind lane_kind(CommKind kind, std::string_view function) {
  if (is_point_to_point(kind)) {
    return kind == CommKind::send ? LaneKind::send : LaneKind::receive;
  }
  if (kind == CommKind::other && !is_collective_function(function)) {
    return LaneKind::other;
  }
  return function.starts_with("MPI_Win_") ? LaneKind::window : LaneKind::collective;
}

void OpLanes::set_name(std::uint32_t row, std::string_view function) {
  if (row >= names_.size()) {
    names_.resize(std::size_t{row} + 1);
  }
  names_[row] = {lane_kind(CommKind::other, function), lane_kind(CommKind::barrier, function)};
}

std::uint32_t OpLanes::lane_of(CommKind kind, std::uint32_t group, std::uint32_t name) {
  const Name named = name < names_.size() ? names_[name] : Name{};
  const LaneKind its = is_point_to_point(kind)   ? lane_kind(kind, {})
                       : kind == CommKind::other ? named.of_other
                                                 : named.of_collective;
  const auto next = static_cast<std::uint32_t>(lanes_.size());
  return lanes_.try_emplace({its, group}, next).first->second;
}

}  // namespace commlens
