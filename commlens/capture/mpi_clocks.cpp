#include "commlens/capture/mpi_clocks.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "commlens/trace/clock.hpp"

namespace commlens::capture {
namespace {

using std::chrono::nanoseconds;

constexpr int k_exchanges = 32;
constexpr int k_tag = 0;  // the communicator is ours alone

/// What a rank sends to rank 0, and what it receives. Sent as bytes: all ranks run the same program.
struct Standing {
  std::uint64_t machine = 0;   // hash of its boot id
  std::int64_t ahead_ns = 0;   // its clock minus the kernel's …
  std::int64_t spread_ns = 0;  // … within this much either way
  std::int64_t offset_ns = 0;  // to rank 0's clock; first ranks of machines only
  std::int64_t error_ns = 0;
  std::int64_t leader = 0;  // first rank of its machine
};

std::uint64_t hash_of(const std::string& text) {  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

void name_leaders(std::vector<Standing>& ranks) {
  std::map<std::uint64_t, std::int64_t> first;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].leader =
        first.try_emplace(ranks[rank].machine, static_cast<std::int64_t>(rank)).first->second;
  }
}

void answer(MPI_Comm world, int leader) {
  for (int exchange = 0; exchange < k_exchanges; ++exchange) {
    MPI_Status status;
    COMMLENS_REAL(PMPI_Recv)(nullptr, 0, handles().byte, leader, k_tag, world, &status);
    std::int64_t now = Clock::of_process().now_ns();
    COMMLENS_REAL(PMPI_Send)(&now, sizeof now, handles().byte, leader, k_tag, world);
  }
}

void ask(MPI_Comm world, Standing& own) {
  own.error_ns = std::numeric_limits<std::int64_t>::max();
  for (int exchange = 0; exchange < k_exchanges; ++exchange) {
    MPI_Status status;
    std::int64_t theirs = 0;
    const std::int64_t asked = Clock::of_process().now_ns();
    COMMLENS_REAL(PMPI_Send)(nullptr, 0, handles().byte, 0, k_tag, world);
    COMMLENS_REAL(PMPI_Recv)(&theirs, sizeof theirs, handles().byte, 0, k_tag, world, &status);
    const std::int64_t answered = Clock::of_process().now_ns();
    const std::int64_t error = (answered - asked + 1) / 2;
    if (error < own.error_ns) {
      own.error_ns = error;
      own.offset_ns = theirs - (asked + (answered - asked) / 2);
    }
  }
}

/// What each rank learns from rank 0: the standing of its machine's first rank.
std::vector<Standing> of_leaders(const std::vector<Standing>& ranks) {
  std::vector<Standing> leaders;
  for (const Standing& rank : ranks) {
    leaders.push_back(ranks[static_cast<std::size_t>(rank.leader)]);
  }
  return leaders;
}

}  // namespace

ClockPoint clock_point(MPI_Comm world) {
  int rank = 0;
  int size = 0;
  COMMLENS_REAL(PMPI_Comm_rank)(world, &rank);
  COMMLENS_REAL(PMPI_Comm_size)(world, &size);
  const Clock::Drift drift = Clock::of_process().measured_drift();
  Standing own{
      .machine = hash_of(boot_id()), .ahead_ns = drift.ahead.count(), .spread_ns = drift.error.count()};
  std::vector<Standing> all(rank == 0 ? static_cast<std::size_t>(size) : 0);
  const auto byte = handles().byte;
  const auto gather = [&] {
    COMMLENS_REAL(PMPI_Gather)(&own, sizeof own, byte, all.data(), sizeof own, byte, 0, world);
  };
  gather();
  name_leaders(all);
  Standing received;
  COMMLENS_REAL(PMPI_Scatter)(all.data(), sizeof own, byte, &received, sizeof received, byte, 0, world);
  own.leader = received.leader;
  for (int leader = 1; rank == 0 && leader < size; ++leader) {
    if (all[static_cast<std::size_t>(leader)].leader == leader) {
      answer(world, leader);
    }
  }
  if (rank != 0 && own.leader == rank) {
    ask(world, own);
  }
  gather();
  all = of_leaders(all);
  Standing first;
  COMMLENS_REAL(PMPI_Scatter)(all.data(), sizeof own, byte, &first, sizeof first, byte, 0, world);
  const bool is_first = own.leader == rank;
  // A rank's time minus its own lead over the kernel plus the first rank's lead is the first rank's time.
  return {.at = nanoseconds(Clock::of_process().now_ns()),
          .offset = nanoseconds(first.offset_ns + (is_first ? 0 : first.ahead_ns - own.ahead_ns)),
          .error = nanoseconds(first.error_ns + (is_first ? 0 : first.spread_ns + own.spread_ns))};
}

}  // namespace commlens::capture
