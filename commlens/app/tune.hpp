#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/app/model_messages.hpp"
#include "commlens/app/train_request.hpp"
#include "commlens/app/tune_rounds.hpp"
#include "commlens/base/result.hpp"
#include "commlens/transport/communicator.hpp"
#include "commlens/tune/launches.hpp"

namespace commlens {

/// Files that rules are written to; empty: not written.
struct RuleFiles {
  std::string open_mpi;
  std::string mpich;
  std::string nccl;
  std::string transports;  // a table of transports, which is read by other verbs
};

/// Whose messages are tuned, over what, and how well.
struct TuneRequest {
  MessagesRequest messages;  // its events are those of the request
  Transport transport = Transport::threads;
  std::string mpi;                                         // openmpi or mpich; empty: the launcher's
  double least_gain = 0.05;                                // of a rule, as a share of the default's time
  std::uint64_t seed = 1;                                  // of the order of calls, and of intervals
  std::chrono::nanoseconds time{std::chrono::seconds(1)};  // of each message with each algorithm, at most
  std::int64_t most_rounds = 400;
  std::int64_t launches = 1;  // over threads: jobs one after the other
  std::chrono::nanoseconds launch_every = std::chrono::milliseconds(500);  // from begin to begin, at least
  std::string append;  // a file of launches of other jobs, to which this one's are added; empty: none
  RuleFiles files;
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);  // longest wait for one call; 0: any
  /// As TrainRequest::give_up.
  std::function<void(const std::string& reason)> give_up;
  std::function<bool()> stop_requested;  // polled on every rank; one that is to stop stops the job
  Events events;
  /// Decorates the communicator of each rank; empty: nothing does.
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)> decorate;
};

/// A message made in one way, in one launch.
struct TuneLaunchRow {
  std::string op;
  std::string dtype;
  std::int64_t ranks = 2;
  std::int64_t bytes = 0;
  std::string algorithm;  // empty: the library's choice
  tune::LaunchMedians medians;
};

/// What one launch has measured.
struct TuneLaunch {
  std::uint64_t seed = 1;
  std::int64_t began_ns = 0;  // since 1970
  std::int64_t rounds = 0;
  std::vector<TuneLaunchRow> rows;
};

/// Which algorithm each message should use.
struct TuneResult {
  bool reports = true;       // false on MPI processes but the first, which has the members below
  bool was_refused = false;  // with reports false: another rank has the error
  std::string messages;      // whose
  std::string transport;     // "threads", "mpi"
  std::string library;       // "Open MPI v4.1.4, …"; of threads that of commlens
  std::int64_t ranks = 1;    // that made the calls
  std::uint64_t seed = 1;
  double least_gain = 0;
  std::vector<RankRange> classes;
  TunedMessages tuned;
  std::vector<TuneLaunch> launches;  // by which it is decided, those of other jobs in the file first
  std::vector<std::string> written;  // files
};

/// Times the messages with each algorithm of the transport, decides, by all launches where there are several,
/// and writes the files. Over MPI every
/// process of the job calls it. Fails on requests that cannot be: over MPI on one rank, the first that has an
/// error, and the result of the others is refused. A run that was stopped decides nothing and writes no file.
/// Throws SystemError if a rank fails.
Result<TuneResult> tune_calls(const TuneRequest& request);

/// A table; JSON as schema commlens.tune/1; CSV with one line per message.
std::string rendered(const TuneResult& result, Format format, const TextStyle& style = {});

}  // namespace commlens
