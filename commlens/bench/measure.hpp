#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "commlens/bench/bench_case.hpp"
#include "commlens/bench/bench_groups.hpp"
#include "commlens/bench/rounds.hpp"

namespace commlens::bench {

/// A call of a row: a case, and which groups make it.
struct PlannedCall {
  BenchCase timed;
  std::size_t groups = 0;  // in MeasurePlan::groups
};

/// One row: a call, or several that are in flight at once.
struct PlannedRow {
  std::vector<PlannedCall> calls;
};

/// What is measured; the same on all ranks.
struct MeasurePlan {
  std::vector<GroupSet> groups;
  std::vector<PlannedRow> rows;
  bool is_cold = false;   // buffers have left the caches
  bool verifies = false;  // results are compared after the first calls and at the end, untimed
  Bytes cache;            // the last-level cache of a machine
  std::int64_t ranks_on_machine = 1;
};

/// One row's measurement, on the world's first rank.
struct MeasuredRow {
  RowSamples one;                      // of a call, which some ops make of several messages
  double messages = 1;                 // of a sample: 2 of ping_pong
  std::vector<double> back_to_back_s;  // per call of several in a row; empty where that is not measured
  std::int64_t wrong_elements = 0;
  std::string wrong;  // the first of them: "element 5 of rank 3"; empty: none, or not verified
};

struct Measured {
  std::vector<MeasuredRow> rows;
  double clock_error_s = 0;
  std::int64_t rounds = 0;
  std::int64_t timed_rows = 0;  // of all rows, twice where back to back is measured
  bool is_partial = true;       // the measurement goes on, or was stopped
  bool was_stopped = false;
};

/// What the buffers of all ranks of a machine take, at most.
Bytes buffer_memory(const MeasurePlan& plan);

/// How many rows the rounds of a plan have (Measured::timed_rows goes up to it).
std::int64_t row_count(const MeasurePlan& plan);

/// Work before the first round, as the first rank does it.
struct SetUp {
  enum class Step : std::uint8_t { buffers, first_calls, verification };
  Step step = Step::buffers;
  std::int64_t done = 0;  // bytes of buffers, or rows
  std::int64_t total = 0;
};

/// Measures all rows. Collective over `world`; on other ranks than the first the result has no samples.
/// `has_more` is called on the first rank while it goes on, `sets_up` before. Every rank asks
/// `rounds.stop_requested`, also while it makes large buffers.
Measured measure(Communicator& world, const MeasurePlan& plan, const RoundOptions& rounds,
                 const std::function<void(const Measured&)>& has_more = {},
                 const std::function<void(const SetUp&)>& sets_up = {});

/// The last-level cache of this machine; 32 MiB where the system does not say.
Bytes last_level_cache();

}  // namespace commlens::bench
