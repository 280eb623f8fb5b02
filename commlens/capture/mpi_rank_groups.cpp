#include "commlens/capture/mpi_rank_groups.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "commlens/capture/mpi_session.hpp"

namespace commlens::capture {
namespace {

constexpr GroupId k_not_asked{UINT32_MAX};

std::vector<Rank> ranks_of(const RankGroup::Members& members) {
  std::vector<Rank> ranks;
  for (const std::int64_t member : members.own) {
    ranks.push_back(Rank{member});
  }
  for (const std::int64_t member : members.other) {
    ranks.push_back(Rank{member});
  }
  if (!members.other.empty()) {
    std::sort(ranks.begin(), ranks.end());
  }
  return ranks;
}

bool are_all_inside(const std::vector<std::int64_t>& members) {
  return std::find(members.begin(), members.end(), RankGroup::k_outside) == members.end();
}

// Attributes are not copied to a duplicate.
// NOLINTBEGIN(readability-function-size): MPI says with how many arguments they are called
int copy_no_attribute(MPI_Comm, int, void*, void*, void*, int* is_copied) {
  *is_copied = 0;
  return MPI_SUCCESS;
}
int copy_no_window_attribute(MPI_Win, int, void*, void*, void*, int* is_copied) {
  *is_copied = 0;
  return MPI_SUCCESS;
}
// NOLINTEND(readability-function-size)
int forget_comm(MPI_Comm comm, int, void*, void*) {
  if (Session* const session = Session::of_process(); session != nullptr) {
    session->forget_comm(key_of(comm));
  }
  return MPI_SUCCESS;
}
int forget_window(MPI_Win window, int, void*, void*) {
  if (Session* const session = Session::of_process(); session != nullptr) {
    session->forget_window(key_of(window));
  }
  return MPI_SUCCESS;
}

/// A mark on an object whose end it reports.
int comm_mark() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    COMMLENS_REAL(PMPI_Comm_create_keyval)(&copy_no_attribute, &forget_comm, &made, nullptr);
    return made;
  }();
  return key;
}
int window_mark() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    COMMLENS_REAL(PMPI_Win_create_keyval)(&copy_no_window_attribute, &forget_window, &made, nullptr);
    return made;
  }();
  return key;
}

std::vector<bool> grid_neighbours(MPI_Comm comm) {
  int dimensions = 0;
  COMMLENS_REAL(PMPI_Cartdim_get)(comm, &dimensions);
  std::vector<bool> neighbours;
  for (int dimension = 0; dimension < dimensions; ++dimension) {
    int below = MPI_PROC_NULL;
    int above = MPI_PROC_NULL;
    COMMLENS_REAL(PMPI_Cart_shift)(comm, dimension, 1, &below, &above);
    neighbours.push_back(below != MPI_PROC_NULL);
    neighbours.push_back(above != MPI_PROC_NULL);
  }
  return neighbours;
}

std::vector<bool> all_of(int count) { return std::vector<bool>(static_cast<std::size_t>(count), true); }

Neighbours neighbours_of(MPI_Comm comm) {
  int topology = MPI_UNDEFINED;
  COMMLENS_REAL(PMPI_Topo_test)(comm, &topology);
  int in = 0;
  int out = 0;
  if (topology == MPI_CART) {
    const std::vector<bool> neighbours = grid_neighbours(comm);
    return {neighbours, neighbours};
  }
  if (topology == MPI_GRAPH) {
    int rank = 0;
    COMMLENS_REAL(PMPI_Comm_rank)(comm, &rank);
    COMMLENS_REAL(PMPI_Graph_neighbors_count)(comm, rank, &in);
    return {all_of(in), all_of(in)};
  }
  if (topology == MPI_DIST_GRAPH) {
    int is_weighted = 0;
    COMMLENS_REAL(PMPI_Dist_graph_neighbors_count)(comm, &in, &out, &is_weighted);
    return {all_of(in), all_of(out)};
  }
  return {};
}

}  // namespace

std::vector<std::int64_t> world_ranks(MPI_Group group) {
  int size = 0;
  COMMLENS_REAL(PMPI_Group_size)(group, &size);
  std::vector<int> own(static_cast<std::size_t>(size));
  std::iota(own.begin(), own.end(), 0);
  std::vector<int> translated(own.size(), MPI_UNDEFINED);
  MPI_Group world{};
  COMMLENS_REAL(PMPI_Comm_group)(job_comm(), &world);
  COMMLENS_REAL(PMPI_Group_translate_ranks)(group, size, own.data(), world, translated.data());
  COMMLENS_REAL(PMPI_Group_free)(&world);
  std::vector<std::int64_t> ranks;
  for (const int rank : translated) {
    ranks.push_back(rank == MPI_UNDEFINED ? RankGroup::k_outside : rank);
  }
  return ranks;
}

RankGroup::RankGroup(Members members, std::int64_t self, std::uint64_t number, Recorder& recorder)
    : members_(std::move(members)),
      self_(self),
      is_within_job_(are_all_inside(members_.own) && are_all_inside(members_.other)),
      recorder_(recorder),
      group_(k_not_asked) {
  const std::vector<Rank> ranks = ranks_of(members_);
  if (ranks.size() > 1) {  // with itself a rank waits for nobody
    communicator_ = communicator_id(number, std::min_element(ranks.begin(), ranks.end())->value);
  }
}

GroupId RankGroup::group() const {
  if (group_ == k_not_asked) {
    int world = 0;
    COMMLENS_REAL(PMPI_Comm_size)(job_comm(), &world);
    const std::vector<Rank> ranks = ranks_of(members_);
    const bool is_world = ranks.size() == static_cast<std::size_t>(world);
    const Axis axis = ranks.size() == 1 ? Axis::self : is_world ? Axis::world : Axis::unknown;
    group_ = recorder_.group(ranks, axis, communicator_);
  }
  return group_;
}

GroupId RankGroup::pair(std::vector<GroupId>& known, int peer, bool is_to) {
  if (peer < 0 || peer >= peers()) {
    return recorder_.group({}, Axis::unknown);
  }
  if (known.empty()) {
    known.assign(addressed().size(), k_not_asked);
  }
  GroupId& group = known[static_cast<std::size_t>(peer)];
  if (group == k_not_asked) {
    const Rank here{members_.own[static_cast<std::size_t>(self_)]};
    const Rank there{addressed()[static_cast<std::size_t>(peer)]};
    group = recorder_.group(is_to ? std::vector{here, there} : std::vector{there, here}, Axis::unknown,
                            communicator_);
  }
  return group;
}

GroupId RankGroup::to(int peer) { return pair(to_, peer, true); }

GroupId RankGroup::from(int peer) { return pair(from_, peer, false); }

GroupId RankGroup::with(int peer) {
  if (peer != self_ || is_inter()) {
    return to(peer);
  }
  with_.resize(1, k_not_asked);
  if (with_.front() == k_not_asked) {
    with_.front() = recorder_.group({Rank{members_.own[static_cast<std::size_t>(self_)]}}, Axis::self);
  }
  return with_.front();
}

HandleGroup* CommunicatorRegistry::find(MPI_Comm comm) {
  if (comm == handles().no_comm) {
    return nullptr;
  }
  const std::uint64_t key = key_of(comm);
  auto found = comms_.find(key);
  if (found == comms_.end()) {
    int is_inter = 0;
    MPI_Group own{};
    MPI_Group other{};
    if (COMMLENS_REAL(PMPI_Comm_test_inter)(comm, &is_inter) != MPI_SUCCESS ||
        COMMLENS_REAL(PMPI_Comm_group)(comm, &own) != MPI_SUCCESS) {
      return nullptr;
    }
    if (is_inter != 0) {
      COMMLENS_REAL(PMPI_Comm_remote_group)(comm, &other);
    }
    RankGroup* const group = group_of(own, is_inter != 0 ? other : own, numbers_.number(key));
    COMMLENS_REAL(PMPI_Group_free)(&own);
    if (is_inter != 0) {
      COMMLENS_REAL(PMPI_Group_free)(&other);
    }
    found = comms_.emplace(key, HandleGroup{.group = group, .neighbours = {}}).first;
    COMMLENS_REAL(PMPI_Comm_set_attr)(comm, comm_mark(), nullptr);
  }
  recent_[slot_of(key)] = {key, &found->second};
  return &found->second;
}

HandleGroup* CommunicatorRegistry::find_window(MPI_Win window) {
  if (window == handles().no_window) {
    return nullptr;
  }
  const std::uint64_t key = key_of(window);
  auto found = windows_.find(key);
  if (found == windows_.end()) {
    MPI_Group own{};
    if (COMMLENS_REAL(PMPI_Win_get_group)(window, &own) != MPI_SUCCESS) {
      return nullptr;
    }
    const auto number = window_numbers_.find(key);
    RankGroup* const group = group_of(own, own, number == window_numbers_.end() ? 0 : number->second);
    COMMLENS_REAL(PMPI_Group_free)(&own);
    found = windows_.emplace(key, HandleGroup{.group = group, .neighbours = {}}).first;
    COMMLENS_REAL(PMPI_Win_set_attr)(window, window_mark(), nullptr);
  }
  recent_windows_[slot_of(key)] = {key, &found->second};
  return &found->second;
}

RankGroup* CommunicatorRegistry::group_of(MPI_Group own, MPI_Group other, std::uint64_t number) {
  int self = 0;
  COMMLENS_REAL(PMPI_Group_rank)(own, &self);
  RankGroup::Members members{world_ranks(own),
                             own == other ? std::vector<std::int64_t>{} : world_ranks(other)};
  std::unique_ptr<RankGroup>& group = groups_[{members, self, number}];
  if (!group) {
    group = std::make_unique<RankGroup>(std::move(members), self, number, recorder_);
  }
  return group.get();
}

const Neighbours& CommunicatorRegistry::neighbours(MPI_Comm comm) {
  static const Neighbours none;
  HandleGroup* const known = of(comm);
  if (known == nullptr) {
    return none;
  }
  if (!known->has_neighbours) {
    known->neighbours = neighbours_of(comm);
    known->has_neighbours = true;
  }
  return known->neighbours;
}

void CommunicatorRegistry::forget_comm(std::uint64_t key) {
  recent_[slot_of(key)] = {};
  comms_.erase(key);
  numbers_.forget(key);
}

void CommunicatorRegistry::forget_window(std::uint64_t key) {
  recent_windows_[slot_of(key)] = {};
  windows_.erase(key);
  window_numbers_.erase(key);
}

}  // namespace commlens::capture
