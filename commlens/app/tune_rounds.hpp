#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/model_messages.hpp"
#include "commlens/bench/bench_case.hpp"
#include "commlens/transport/communicator.hpp"
#include "commlens/tune/rules.hpp"
#include "commlens/tune/selection.hpp"

namespace commlens {

/// One message, made in every way that the transport has for it.
struct TunedMessage {
  bench::BenchCase timed;
  std::vector<double> calls_of_class;   // per iteration, of one rank of each class
  std::vector<tune::Variant> variants;  // the library's choice first
  tune::Decision decision;
  std::string no_rule;  // why a variant that was chosen gets no rule; empty: it does, or none was

  bool has_rule() const { return decision.variant > 0 && no_rule.empty(); }
  tune::Rule rule() const;  // the algorithm is that of the decision
};

struct TuneRoundOptions {
  tune::SelectionOptions selection;
  std::uint64_t seed = 1;                                  // of the order in each round
  std::chrono::nanoseconds time{std::chrono::seconds(1)};  // of each variant, at most
  std::int64_t most_rounds = 400;
  /// Memory that the buffers of a rank's calls go through in turns; absent: the rank's share of
  /// tuned_memory().
  std::optional<Bytes> buffers;
  std::function<std::int64_t()> clock = {};  // of this rank, ns; empty: the monotonic clock of its machine
  std::function<bool()> stop_requested;
  std::function<void(std::int64_t rows_done, std::int64_t rows)> progress;  // on the first rank; may be empty
};

/// On the first rank; other ranks have no messages.
struct TunedMessages {
  std::vector<TunedMessage> messages;
  std::map<std::string, double> left_out;  // calls per iteration and job that were not timed, by reason
  tune::StepGain step;                     // of the class of ranks that spends most time in the messages
  std::size_t step_class = 0;
  std::int64_t rounds = 0;
  bool was_stopped = false;
  double clock_error_s = 0;
  std::int64_t timed_launches = 1;
  std::int64_t launches = 1;  // by which it was decided: of those of one moment, one

  /// Whether there are enough launches to decide by: a single one, of which its rounds say something, or
  /// six.
  bool has_enough_launches() const;
  /// Whether rules exist, and the step gains by them in rounds that did not choose them: of one launch, the
  /// interval of its gain is above 0; of several, other launches would show it too (tune::is_found_again()).
  bool is_confirmed() const;
  /// Those of a confirmed result, else none.
  std::vector<tune::Rule> rules() const;
};

/// What the buffers of the `ranks_here` ranks of a machine take in a job of `job_ranks`: as those of bench
/// that have left the caches.
Bytes tuned_memory(const ModelMessages& messages, std::int64_t job_ranks, std::int64_t ranks_here);

/// Times each message with each algorithm of the transport, shuffled anew in every round, and decides. Groups
/// of n ranks are the first n ranks of `world`, the next n, and so on, which make their calls at the same
/// time, as those of one axis do. Collective over `world`.
TunedMessages tuned_messages(Communicator& world, const ModelMessages& messages,
                             const TuneRoundOptions& options);

/// What remains once each message has its decision: leaves out rules that no file can have, finds the class
/// of ranks that spends most time, and takes the gain of its step from `step_of` (the place of a class).
void settle_decisions(TunedMessages& found, const std::function<tune::StepGain(std::size_t place)>& step_of);

}  // namespace commlens
