#include "commlens/capture/mpi_communicators.hpp"

#include <algorithm>
#include <vector>

#include "commlens/capture/mpi_rank_groups.hpp"

namespace commlens::capture {
namespace {

/// One round of splitmix64 over both words.
std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) + 0x9e3779b97f4a7c15U;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebU;
  return hash ^ (hash >> 31);
}

/// Never 0, which means unknown.
std::uint64_t number_of(std::uint64_t hash) { return hash == 0 ? 1 : hash; }

std::uint64_t mixed(std::uint64_t hash, const std::vector<std::int64_t>& ranks) {
  hash = mixed(hash, ranks.size());
  for (const std::int64_t rank : ranks) {
    hash = mixed(hash, static_cast<std::uint64_t>(rank));
  }
  return hash;
}

/// The members of a communicator, the same for all of them: of an inter-communicator whichever group is less
/// comes first.
std::uint64_t hash_of_members(std::uint64_t hash, MPI_Comm comm) {
  int is_inter = 0;
  MPI_Group group{};
  COMMLENS_REAL(PMPI_Comm_test_inter)(comm, &is_inter);
  COMMLENS_REAL(PMPI_Comm_group)(comm, &group);
  std::vector<std::int64_t> first = world_ranks(group);
  COMMLENS_REAL(PMPI_Group_free)(&group);
  if (is_inter == 0) {
    return mixed(hash, first);
  }
  COMMLENS_REAL(PMPI_Comm_remote_group)(comm, &group);
  std::vector<std::int64_t> second = world_ranks(group);
  COMMLENS_REAL(PMPI_Group_free)(&group);
  if (second < first) {
    std::swap(first, second);
  }
  return mixed(mixed(hash, first), second);
}

// What a number comes from, so that no two ways give the same.
enum Way : std::uint64_t { by_all = 1, by_part, by_members, of_old_age };

}  // namespace

CommunicatorNumbers::CommunicatorNumbers() {
  known_[key_of(handles().world)] = {.number = static_cast<std::uint64_t>(world_communicator())};
  known_[key_of(handles().self)] = {.number = 1};
}

std::uint64_t CommunicatorNumbers::number(std::uint64_t key) const {
  const auto found = known_.find(key);
  return found == known_.end() ? 0 : found->second.number;
}

CommunicatorNumbers::Known* CommunicatorNumbers::of(MPI_Comm comm) {
  const auto found = known_.find(key_of(comm));
  return found == known_.end() ? nullptr : &found->second;
}

void CommunicatorNumbers::add(MPI_Comm made, Known known) {
  if (made != handles().no_comm) {
    known_[key_of(made)] = known;
  }
}

void CommunicatorNumbers::made_by_all(MPI_Comm parent, MPI_Comm made) {
  Known* const from = of(parent);
  if (from == nullptr) {
    forget(key_of(made));  // one that had the same handle
    return;
  }
  const std::uint64_t before = from->made++ % k_most_of_one_parent;
  const std::uint64_t generation = from->generation + 1;
  const bool is_old = generation > k_most_generations;
  const std::uint64_t start = is_old ? mixed(of_old_age, generation % k_most_generations) : from->number;
  add(made, {.number = number_of(mixed(mixed(start, by_all), before)), .generation = generation});
}

void CommunicatorNumbers::made_by_part(MPI_Comm parent, MPI_Group group, int tag, MPI_Comm made) {
  const Known* const from = of(parent);
  if (from == nullptr || made == handles().no_comm) {
    forget(key_of(made));
    return;
  }
  const std::uint64_t generation = from->generation + 1;
  const bool is_old = generation > k_most_generations;
  const std::uint64_t start = is_old ? mixed(of_old_age, generation % k_most_generations) : from->number;
  const std::uint64_t who =
      mixed(mixed(mixed(start, by_part), static_cast<std::uint64_t>(tag)), world_ranks(group));
  const std::uint64_t before = made_alone_[who]++ % k_most_of_one_parent;
  add(made, {.number = number_of(mixed(who, before)), .generation = generation});
}

void CommunicatorNumbers::made_by_members(MPI_Comm made, std::string_view word) {
  if (made == handles().no_comm) {
    return;
  }
  const auto start = static_cast<std::uint64_t>(communicator_named(word));
  const std::uint64_t who = hash_of_members(mixed(start, by_members), made);
  const std::uint64_t before = made_alone_[who]++ % k_most_of_one_parent;
  add(made, {.number = number_of(mixed(who, before)), .generation = 1});
}

CommunicatorId communicator_id(std::uint64_t number, std::int64_t lowest_rank) {
  if (number == 0 || number == static_cast<std::uint64_t>(world_communicator())) {
    return CommunicatorId{number};
  }
  return CommunicatorId{number_of(mixed(number, static_cast<std::uint64_t>(lowest_rank)))};
}

}  // namespace commlens::capture
