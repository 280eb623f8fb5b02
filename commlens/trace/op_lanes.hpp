#pragma once
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "commlens/comm/event.hpp"

namespace commlens {

/// How a call meets those of other ranks, as far as its kind and name say. With its group, which says of
/// whom, this is all that the numbers of calls depend on.
enum class LaneKind : std::uint8_t {
  collective,
  window,  // a collective of one-sided communication
  send,
  receive,
  other  // does not wait for a call of another rank
};
/// `function`: the name of the call, which counts for those of kind `other` and for windows.
LaneKind lane_kind(CommKind kind, std::string_view function);

/// Numbers the lanes of a rank: its calls of one LaneKind and group. A ring counts the overwritten calls of
/// each, so that the rest still have their numbers. Who writes a rank's tables and who reads them go through
/// the rows of ops in the same order, so lanes need no rows of their own.
class OpLanes {
 public:
  /// The name in row `row` of the file.
  void set_name(std::uint32_t row, std::string_view function);
  /// Of the next row of ops; `group` and `name` are rows of the same file.
  std::uint32_t lane_of(CommKind kind, std::uint32_t group, std::uint32_t name);

 private:
  /// What a name says of calls of kind `other`, and of the rest.
  struct Name {
    LaneKind of_other = LaneKind::collective;
    LaneKind of_collective = LaneKind::collective;
  };
  std::vector<Name> names_;
  std::map<std::pair<LaneKind, std::uint32_t>, std::uint32_t> lanes_;
};

constexpr std::uint32_t k_no_lane = UINT32_MAX;

}  // namespace commlens
