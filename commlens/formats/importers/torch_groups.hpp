#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/rank.hpp"
#include "commlens/formats/importers/call_builder.hpp"

namespace commlens {

/// What a source tells of a process group: its ranks in the group's order, or their number, or nothing (0).
struct TorchGroup {
  std::vector<Rank> ranks;
  std::int64_t size = 0;

  /// The global rank of a position in the group; nothing when the ranks are not known or have no such
  /// position.
  std::optional<std::int64_t> global(std::int64_t group_rank) const;
};

/// The process groups of one process by the name that its calls use.
class TorchGroups {
 public:
  /// Reads the list that PyTorch's profiler writes at its start, JSON: [{"pg_name": "0", "ranks": [0, 1],
  /// "group_size": 2, …}, …]. No ranks are all ranks of the job, 0 to group_size - 1. Where "backend_id" is
  /// given the group is known by that number too. False when the text is no such list.
  bool read_list(std::string_view json);

  /// Adds a group of `name`; a group that is known with its ranks stays as it is.
  void add(const std::string& name, TorchGroup group);

  /// The group of that name; an empty one when there is none.
  const TorchGroup& find(std::string_view name) const;
  bool empty() const { return groups_.empty(); }

 private:
  std::map<std::string, TorchGroup, std::less<>> groups_;
};

/// Fills the fields of `record` that say the group of a collective: its ranks, ascending, or its size and
/// `name`, or that nothing is known.
void set_group(const TorchGroup& group, const std::string& name, CallRecord& record);

/// `start`, `start` + `stride`, …: the ranks of a group that a call describes so; nothing when that cannot
/// be.
std::optional<std::vector<Rank>> strided_ranks(std::int64_t start, std::int64_t stride, std::int64_t size);

}  // namespace commlens
