#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "commlens/trace/trace.hpp"

namespace commlens {

/// The number of a list of global ranks, the same in both traces for the same list.
enum class CanonicalGroup : std::uint32_t {};

/// The groups of two traces, numbered independently of their tables.
class CanonicalGroups {
 public:
  CanonicalGroup intern(const std::vector<Rank>& members);
  const std::vector<Rank>& members(CanonicalGroup group) const {
    return *members_[static_cast<std::size_t>(group)];
  }

 private:
  std::map<std::vector<Rank>, CanonicalGroup> ids_;
  std::vector<const std::vector<Rank>*> members_;  // keys of ids_, which never move
};

/// The groups of one trace, resolved per rank. For collectives a group is a set, for send and recv an ordered
/// pair.
class ResolvedGroups {
 public:
  ResolvedGroups(const Trace& trace, CanonicalGroups& canonical)
      : trace_(trace), canonical_(canonical), ranks_(trace.ranks()) {}

  CanonicalGroup of(const CommOp& op, Rank self);
  /// The root's index in the canonical group; -1 without root.
  std::int64_t root_of(const CommOp& op, Rank self);

 private:
  struct Resolved {
    bool same_for_all = false;           // an explicit list
    bool ascending = true;               // its members are in ascending order
    std::vector<std::uint32_t> of_rank;  // CanonicalGroup + 1; 0: not yet known
  };
  Resolved& entry(const CommOp& op);
  CanonicalGroup resolve(const CommOp& op, Rank self, Resolved& resolved);

  const Trace& trace_;
  CanonicalGroups& canonical_;
  std::int64_t ranks_;
  std::unordered_map<std::uint64_t, Resolved> resolved_;  // by group and whether it is ordered
};

/// The axis of a group: that of its trace, else that of its members on `mesh`, the other trace's mesh, if
/// there is one.
Axis axis_of(const Trace& trace, const CommOp& op, const std::optional<Mesh>& mesh, Rank self);

}  // namespace commlens
