#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/machine/cost/library.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// Where a time comes from, from the best to the worst.
enum class TimeSource : std::uint8_t {
  measured,      // of exactly this call
  calibrated,    // by coefficients that measurements of this machine and library fixed
  borrowed,      // by those of another machine, or of another placement, algorithm or library release
  uncalibrated,  // by the library's own constants alone
};
std::string_view name_of(TimeSource source);

/// The time of one call, and how sure it is.
struct CollectiveTime {
  double us = 0;
  double low_us = 0;  // 90 % interval
  double high_us = 0;
  TimeSource source = TimeSource::uncalibrated;
  std::string source_of;  // what was borrowed from; the calibration's source
  std::string algorithm;
  std::string protocol;
  double library_us = 0;  // by the library's own constants; 0: it has none
};

/// What to time. The machines outlive it.
struct CostQuery {
  const Machine* machine = nullptr;
  const Machine* lender = nullptr;  // the machine that `machine` borrows from; null: none
  Library library;
  TimedCall call;
  std::vector<TunedPair> tuning;  // of a log; empty: the library's own table
};

/// A candidate with the time that calibration gives it.
struct TimedCandidate {
  Candidate candidate;
  CollectiveTime time;
  bool is_chosen = false;
};

/// The time of a call: the library's own table chooses algorithm and protocol, calibrated coefficients time
/// it. Fails for more ranks than the machine has, and where neither tables nor calibrations know the call.
Result<CollectiveTime> collective_time(const CostQuery& query);

/// Every candidate of one call.
Result<std::vector<TimedCandidate>> candidate_times(const CostQuery& query);

/// The time under one pair, whatever the library would take.
Result<CollectiveTime> time_of_pair(const Machine& machine, const Library& library, const TimedCall& call,
                                    const PairName& pair);

/// The release that a machine's calibrations are of; without any, the newest that has a table here.
std::string default_version(const Machine& machine, std::string_view library);

/// Whether the library carries calls out on such processors: NCCL on GPUs of its maker, RCCL on those of the
/// other, MPI on all.
bool runs_on(const std::string& library, Architecture architecture);
/// Fails where it does not.
Result<void> check_runs_on(const std::string& library, const Machine& machine);

/// The time in which a ring at the links' bandwidth carries the call, us: what each rank sends over its links
/// in the node, and each node over its NICs. No estimate is below it; what was measured may be.
double least_us(const Machine& machine, const TimedCall& call);

}  // namespace commlens
