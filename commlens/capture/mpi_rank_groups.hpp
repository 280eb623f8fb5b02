#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "commlens/base/rank.hpp"
#include "commlens/capture/mpi_api.hpp"
#include "commlens/capture/mpi_communicators.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/comm/group.hpp"
#include "commlens/trace/recorder.hpp"

namespace commlens::capture {

/// The ranks that a communicator or a window joins, as ranks of MPI_COMM_WORLD. One per set of ranks and
/// number of a communicator; it lives as long as the process.
class RankGroup {
 public:
  struct Members {
    std::vector<std::int64_t> own;    // the group this process is in; k_outside: not of this job
    std::vector<std::int64_t> other;  // the other group of an inter-communicator; else empty
    friend auto operator<=>(const Members&, const Members&) = default;
  };
  static constexpr std::int64_t k_outside = -1;

  /// `self`: this process's position in `members.own`; `number`: CommunicatorNumbers::number.
  RankGroup(Members members, std::int64_t self, std::uint64_t number, Recorder& recorder);

  bool is_inter() const { return !members_.other.empty(); }
  /// Processes that this one addresses by rank: those of the other group of an inter-communicator.
  std::int64_t peers() const { return static_cast<std::int64_t>(addressed().size()); }
  std::int64_t size() const { return static_cast<std::int64_t>(members_.own.size()); }
  std::int64_t self() const { return self_; }
  /// Whether all of them have a rank in MPI_COMM_WORLD; a trace cannot describe calls of others.
  bool is_within_job() const { return is_within_job_; }

  /// All members; of an inter-communicator both groups, ascending.
  GroupId group() const;
  /// [this process, `peer`], [`peer`, this process]: of a send and a receive. A peer of -1 is nobody yet: the
  /// group without members.
  GroupId to(int peer);
  GroupId from(int peer);
  /// This process and `peer`, of a one-sided call; one member when they are the same.
  GroupId with(int peer);

 private:
  const std::vector<std::int64_t>& addressed() const { return is_inter() ? members_.other : members_.own; }
  GroupId pair(std::vector<GroupId>& known, int peer, bool is_to);

  Members members_;
  std::int64_t self_;
  bool is_within_job_;
  CommunicatorId communicator_{};
  Recorder& recorder_;
  mutable GroupId group_;    // once asked for: a communicator may have messages alone
  std::vector<GroupId> to_;  // by peer, once asked for
  std::vector<GroupId> from_;
  std::vector<GroupId> with_;
};

/// The neighbours of a process in a communicator with a topology, in the order of the counts of a call:
/// whether there is one (a grid that does not close has none beyond its edge).
struct Neighbours {
  std::vector<bool> in;   // it receives from them
  std::vector<bool> out;  // it sends to them
};

/// What is known of one handle.
struct HandleGroup {
  RankGroup* group = nullptr;
  bool has_neighbours = false;
  Neighbours neighbours;
};

/// The ranks of the program's communicators and windows, by handle. A handle is forgotten when its object is
/// freed, by the program or the library: an attribute's delete function reports it.
class CommunicatorRegistry {
 public:
  explicit CommunicatorRegistry(Recorder& recorder) : recorder_(recorder) {}

  /// Null for a null handle, or when the library does not report it.
  HandleGroup* of(MPI_Comm comm) {
    const Known& known = recent_[slot_of(key_of(comm))];
    return known.group != nullptr && known.key == key_of(comm) ? known.group : find(comm);
  }
  HandleGroup* of_window(MPI_Win window) {
    const Known& known = recent_windows_[slot_of(key_of(window))];
    return known.group != nullptr && known.key == key_of(window) ? known.group : find_window(window);
  }
  /// The communicator of a handle.
  CommunicatorNumbers& numbers() { return numbers_; }
  void made_window(MPI_Comm comm, MPI_Win window) {
    window_numbers_[key_of(window)] = numbers_.number(key_of(comm));
  }
  /// Of a communicator that of() knows.
  const Neighbours& neighbours(MPI_Comm comm);

  void forget_comm(std::uint64_t key);
  void forget_window(std::uint64_t key);

 private:
  static constexpr std::size_t k_recent = 16;
  struct Known {
    std::uint64_t key = 0;
    HandleGroup* group = nullptr;
  };
  static std::size_t slot_of(std::uint64_t key) { return (key * 0x9e3779b97f4a7c15U) >> 60; }

  HandleGroup* find(MPI_Comm comm);
  HandleGroup* find_window(MPI_Win window);
  RankGroup* group_of(MPI_Group own, MPI_Group other, std::uint64_t number);

  Recorder& recorder_;
  Known recent_[k_recent];
  Known recent_windows_[k_recent];
  std::unordered_map<std::uint64_t, HandleGroup> comms_;
  std::unordered_map<std::uint64_t, HandleGroup> windows_;
  std::map<std::tuple<RankGroup::Members, std::int64_t, std::uint64_t>, std::unique_ptr<RankGroup>> groups_;
  CommunicatorNumbers numbers_;
  std::unordered_map<std::uint64_t, std::uint64_t> window_numbers_;  // that of their communicator
};

/// The members of `group` as ranks of MPI_COMM_WORLD, RankGroup::k_outside those that have none.
std::vector<std::int64_t> world_ranks(MPI_Group group);

}  // namespace commlens::capture
