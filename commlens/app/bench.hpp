#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/bench_launch.hpp"
#include "commlens/app/bench_regression.hpp"
#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/app/train_request.hpp"
#include "commlens/base/result.hpp"
#include "commlens/frameworks/overrides.hpp"

namespace commlens {

/// What is timed, on which ranks, and how well.
struct BenchRequest {
  std::vector<std::string> ops;  // names of bench::BenchOp; empty: the collectives that all transports have
  std::string sizes;             // "8:64M:x2", "8,100,4K"; empty: a few
  std::string dtypes = "fp32";   // a comma list
  std::vector<std::string> messages;  // a configuration (or a trace), whose messages are timed instead
  std::string framework;              // the rules for the configuration; empty: its own
  Overrides overrides;                // changes to the configuration
  Transport transport = Transport::threads;
  std::string mpi;              // openmpi or mpich; empty: the launcher's
  std::string transports;       // a table of algorithms (docs/tuning.md); empty: none
  std::int64_t ranks = 0;       // threads; 0: those of the messages, else 2
  std::string groups;           // "world", "pairs", axes, "tp+dp": both at once; a comma list; empty: world
  std::string mesh;             // "dp=4,tp=2", slowest first; empty: that of the messages
  std::optional<bool> is_cold;  // buffers have left the caches; absent: of messages
  std::int64_t launches = 1;    // over threads: jobs one after the other
  std::chrono::nanoseconds launch_every = std::chrono::milliseconds(500);  // from begin to begin, at least
  bool in_place = false;                                                   // of the ops that may be
  std::string printed_as;  // "osu", "nccl-tests": fails on types that the format lacks; empty: any
  bool verifies = false;   // compares results before and after
  std::chrono::nanoseconds time = std::chrono::seconds(1);  // of a row, at most
  std::optional<std::uint64_t> seed;                        // of the shuffles; absent: another each time
  std::string json;    // a file that has the result, also while it is being made; empty: none
  std::string append;  // the same, and the launches that are in the file stay; empty: none
  std::string check;   // a file of an earlier result to compare with; empty: none
  std::function<Result<void>()>
      check_places;                      // of the caller's files, by the rank that reports; may be empty
  std::function<bool()> stop_requested;  // polled on every rank; one that is to stop stops the job
  Events events;                         // progress comes from the thread of the first rank
  std::function<std::int64_t()> clock;   // of the rank whose thread asks, ns; empty: its machine's
  std::function<std::int64_t()> launch_clock;  // when launches begin, ns since 1970; empty: the machine's
  /// Decorates the communicator of each rank; empty: nothing does.
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)> decorate;
};

/// Times of calls.
struct BenchResult {
  bool reports = true;       // false on MPI processes but the first, which has the members below
  bool was_refused = false;  // another MPI process has refused the job, and its result is the error
  BenchRun run;
  BenchComparison checked;   // with the earlier result, where one was given
  std::string checked_with;  // its file
  std::string unwritten;  // why a file of the result is not written, or not as it should be; empty: all are

  /// Wrong elements in outputs, of all ranks and rows.
  std::int64_t wrong_elements() const;
  bool is_slower() const { return checked.is_slower(); }
};

/// Times calls between ranks that are threads, or over MPI, where every process of the job calls it: the
/// first one reads and writes files of results, and one that cannot go on has the error, the others
/// `was_refused`. Fails on requests that cannot be; throws SystemError if a rank fails.
Result<BenchResult> bench_calls(const BenchRequest& request);

/// The rows as a table; JSON as schema commlens.bench/1; CSV.
std::string rendered(const BenchResult& result, Format format, const TextStyle& style = {});
/// Fails where `format`, "osu" or "nccl-tests", has no test of a row's op, or no name for its type.
Result<void> check_printed_types(const std::string& format, const std::vector<BenchPlanRow>& rows);
/// As the OSU micro-benchmarks, or nccl-tests, print them, without rows whose op or type these lack; our
/// importers of these read it.
std::string osu_text(const BenchResult& result);
std::string nccl_tests_text(const BenchResult& result);
/// A table that `calibrate` fits machines to (docs/machines.md): one line per row whose op has a time there.
std::string sweep_csv(const BenchResult& result);

}  // namespace commlens
