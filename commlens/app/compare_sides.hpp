#pragma once
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/job_source.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/base/result.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// One of the two compared sides: a trace, or a configuration that is yet to be predicted.
struct Side {
  std::string argument;                 // from shown_name()
  std::optional<Job> job;               // a configuration
  std::optional<Job> planned;           // as predicted: overrides applied, degrees resolved
  std::optional<Iteration> steady;      // of a prediction, the iteration that all later ones repeat
  Flops flops_per_rank;                 // of a prediction's steady iteration, the mean over ranks
  Trace trace;                          // given, or predicted
  std::vector<std::string> unverified;  // reasons why a prediction is unverified
  std::optional<Rank> rank;             // whose calls alone `trace` has; absent: of all that it had
  bool is_config() const { return job.has_value(); }
  /// The configuration. Precondition: the side is one.
  const Job& config() const;
  bool is_prediction() const { return is_config() || trace.provenance.source == Source::predicted; }
  bool is_log() const { return !is_config() && trace.provenance.accounting == Accounting::comms_logger; }
  /// Whether the rules are the paper's, which give volumes rather than calls.
  bool has_volumes_only() const { return trace.provenance.framework.starts_with("paper"); }
  /// "case.yaml: predicted by the rules of deepspeed 0.14.0, 4 ranks; unverified: …".
  std::string description() const;
};

/// Compares by what the rules of all frameworks mean.
CompareOptions options_by_rules();

/// Reads a trace or a configuration (files_of()); `framework` is for the latter.
Result<Side> read_side(const Events& events, const std::string& argument, const std::string& framework);

/// Predicts a configuration for a comparison with `other`, for the iterations of `other` (within `range`).
/// The default number of ranks is that of `other`.
Result<void> predict_side(Side& side, const Side& other, const Overrides& overrides,
                          const std::optional<IterationRange>& range, Planner& planner);

/// Makes a configuration's side that of its plan, of the iterations that are given.
void take_plan(Side& side, const Plan& plan, const std::vector<Iteration>& iterations);

/// Fails if a rank is chosen and a side is a printed log, which does not say whose calls it has.
Result<void> check_has_ranks(const std::vector<const Side*>& sides, const std::optional<Rank>& rank);

/// Leaves the calls of one rank on a side, which is read or predicted. Fails if it has none.
Result<void> keep_rank_of(Side& side, Rank rank);

/// Whether nothing says how many ranks a job has.
bool leaves_world_open(const Job& job, const Overrides& overrides);

/// The overrides for a configuration that is compared with `other`: the default number of ranks is that of
/// the trace.
Overrides overrides_for(const Job& job, const Side& other, Overrides overrides);

/// Whether a recording was made by our own trainer.
bool records_own_trainer(const Trace& trace);

/// The side that a printed log was compared with.
struct LogMatch {
  LoggedComparison comparison;
  std::optional<std::int64_t> fitted_dp;  // the chosen degree, if no input has the number of ranks
};

/// Compares a configuration with a printed log. If no input has the number of ranks, the data-parallel degree
/// (a power of two) that fits the log best is chosen. The order option is ignored.
Result<LogMatch> compare_with_log(Side& side, const Side& log, Overrides overrides,
                                  const CompareOptions& options, Planner& planner);

}  // namespace commlens
