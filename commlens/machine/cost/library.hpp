#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/machine/cost/call.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// A communication library at a release, and what its user asked of it.
struct Library {
  std::string name = "nccl";  // "nccl", "rccl", "mpi"
  std::string version;        // "2.27.3"; empty: that of the machine's calibration, else the newest known
  std::vector<std::string> algorithms;  // as NCCL_ALGO restricts them; empty: all
  std::vector<std::string> protocols;   // as NCCL_PROTO
};

/// "nccl:2.27.3", "rccl", "mpi". Fails on other names, and on releases of NCCL that have no table here.
Result<Library> library_from(std::string_view text);

/// The minor number of a release of NCCL 2: 27 of "2.27.3".
Result<int> nccl_minor(std::string_view version);

/// A row of the table that NCCL prints with NCCL_DEBUG_SUBSYS=TUNING: what it thinks of one pair.
struct TunedPair {
  CommKind op = CommKind::other;
  std::string algorithm;
  std::string protocol;
  double latency_us = 0;
  double bandwidth = 0;  // GB/s
};

/// Every way that the library may take, in its order, with its own estimate; what was asked of it is
/// honoured. Of a `tuning` table, its latencies and bandwidths. MPI has no table: no candidates.
Result<std::vector<Candidate>> library_candidates(const Machine& machine, const Library& library,
                                                  const TimedCall& call,
                                                  const std::vector<TunedPair>& tuning = {});

/// The pair that a measured or wanted call belongs to: what the library takes, "any" where that is not known.
struct PairName {
  std::string algorithm;
  std::string protocol;
  friend bool operator==(const PairName&, const PairName&) = default;
  friend auto operator<=>(const PairName&, const PairName&) = default;
};
Result<PairName> chosen_pair(const Machine& machine, const Library& library, const TimedCall& call);

}  // namespace commlens
