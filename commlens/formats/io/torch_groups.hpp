#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/rank.hpp"
#include "commlens/formats/io/call_builder.hpp"

namespace commlens::formats {

/// What a source reports of a process group: its ranks in the group's order, or their number, or nothing (0).
struct TorchGroup {
  std::vector<Rank> ranks;
  std::int64_t size = 0;

  /// The global rank of a position in the group; std::nullopt if the ranks are not known or have no such
  /// position.
  std::optional<std::int64_t> global(std::int64_t group_rank) const;
};

/// A group as `start`, `start` + `stride`, …, which is a list only when it is asked for.
struct StridedGroup {
  std::int64_t start = -1;  // not known
  std::int64_t stride = -1;
  std::int64_t size = 0;  // or 0
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

  /// The same of a group with a stride; of ranks that cannot be or are too many, 2^20 in a group or 2^24 in
  /// all, only the number is kept.
  void add(const std::string& name, const StridedGroup& group);

  /// The group of that name; an empty one when there is none.
  const TorchGroup& find(std::string_view name) const;
  bool empty() const { return groups_.empty(); }

 private:
  TorchGroup listed(const StridedGroup& group);

  std::int64_t listable_ = std::int64_t{1} << 24;  // ranks that short texts may still become
  std::map<std::string, TorchGroup, std::less<>> groups_;
};

/// Fills the fields of `record` that say the group of a collective: its ranks, ascending, or its size and
/// `name`, or that nothing is known.
void set_group(const TorchGroup& group, const std::string& name, CallRecord& record);

/// Parses JSON of unknown origin; a discarded value when it is none or nests deeper than 64, as nlohmann's
/// copies, dumps and destructors need stack for each level.
nlohmann::json shallow_json(std::string_view text);

}  // namespace commlens::formats
