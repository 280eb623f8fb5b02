#pragma once
#include <optional>
#include <string>
#include <vector>

#include "commlens/advice/call_times.hpp"
#include "commlens/advice/step_cost.hpp"
#include "commlens/frameworks/advice_texts.hpp"

namespace commlens {

/// A job with one setting changed, planned.
struct Outcome {
  Job job;
  PlannedStep step;
  std::vector<std::string> unverified;  // settings whose rules were never measured
  const StepCost& cost() const { return step.cost; }
};

/// What to change: the texts of a Recommendation.
struct Change {
  std::string id;
  std::string title;
  std::string reason;
  std::string flag;
  std::string setting;
};

/// The job as it is, with its alternatives: what the topics (topics.hpp) read, and where they write.
class Study {
 public:
  /// `trace` outlives the study.
  static Result<Study> of(const Job& job, const Trace* trace, const AdviceOptions& options);

  const Job& job() const { return now_.job; }
  const StepCost& cost() const { return now_.step.cost; }
  const PlannedStep& step() const { return now_.step; }
  const AdviceOptions& options() const { return options_; }
  const std::optional<CallTimes>& times() const { return times_; }
  const Trace* trace() const { return trace_; }
  const SmallMessages& small() const { return advice_.small; }

  /// The changed job planned; std::nullopt if no framework could run it or its rules do not cover it.
  std::optional<Outcome> outcome(Job changed) const;
  /// The job as it is, with another number of ranks on a node.
  std::optional<Outcome> on_nodes_of(std::int64_t ranks_per_node) const;
  /// Of a GPU; only where options() say it.
  Bytes memory() const;
  /// Whether the memory of a GPU is known and this fits into it.
  bool fits(const StepCost& cost) const { return options_.memory && cost.memory <= *options_.memory; }
  /// Time an outcome saves per iteration; nothing without times.
  std::optional<std::chrono::nanoseconds> time_saved(const Outcome& outcome) const;
  /// The largest share that an outcome saves: of the wire bytes, those between nodes, the calls, the calls'
  /// time or the step (bubble). Calls count only while the wire bytes do not grow by more than a hundredth.
  double saved_share(const Outcome& outcome) const;
  /// Whether that is enough to be named.
  bool is_worth(const Outcome& outcome) const { return saved_share(outcome) >= options_.least_saving; }

  /// The same without the calls: for changes whose price, memory, is not worth a few calls.
  bool is_worth_memory(const Outcome& outcome) const;

  /// With time_saved as its time; where a trace has times but not for these calls, says so.
  void recommend(Change change, const Outcome& outcome);
  /// The same with an estimate of another kind than time_saved.
  void recommend(Change change, const Outcome& outcome, std::chrono::nanoseconds saved, std::string source);
  void leave(std::string why) { advice_.not_advised.push_back(std::move(why)); }
  void cannot_judge(std::string why) { advice_.not_judged.push_back(std::move(why)); }

  /// What was written, the most useful first.
  Advice take();

 private:
  Study(Outcome now, const Trace* trace, const AdviceOptions& options);
  /// Without its time.
  Recommendation recommendation(Change change, const Outcome& outcome) const;

  Outcome now_;
  const Trace* trace_;
  AdviceOptions options_;
  std::optional<CallTimes> times_;
  Advice advice_;
};

/// "12 %", "1.5 %" of `whole`; "0.0 %" of nothing.
std::string share_text(double part, double whole);
/// "1.50 MiB more", "1.50 MiB less", "as much memory".
std::string change_text(Bytes added);
/// Where the users of the job's framework have its settings: "of commlens train".
std::string settings_place(const Job& job);
/// How they write the value that the setting has in the job, and where.
std::string setting_text(const Job& job, Setting setting);
/// What a topic would change of the job's framework's own settings; none if there is nothing to gain.
std::vector<AdvisedChange> advised_changes(const Job& job, AdviceTopic topic);
/// Whether activations can be split along the sequence.
bool has_sequence_parallelism(const Job& job);
/// Bytes of a gradient bucket; 0 where the framework has none.
Bytes bucket_of(const Job& job);

}  // namespace commlens
