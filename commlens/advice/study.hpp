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

/// A change: the texts of a Recommendation.
struct Change {
  std::string id;
  std::string title;
  std::string reason;
  std::string flag;
  std::string setting;
};

/// The unchanged job and its alternatives: input and output of the topics (topics.hpp).
class Study {
 public:
  /// `trace` must outlive the study.
  static Result<Study> of(const Job& job, const Trace* trace, const AdviceOptions& options);

  const Job& job() const { return now_.job; }
  const StepCost& cost() const { return now_.step.cost; }
  const PlannedStep& step() const { return now_.step; }
  const AdviceOptions& options() const { return options_; }
  const std::optional<CallTimes>& times() const { return times_; }
  const Trace* trace() const { return trace_; }
  const SmallMessages& small() const { return advice_.small; }

  /// The plan of the changed job; std::nullopt if no framework could run it or its rules do not support it.
  std::optional<Outcome> outcome(Job changed) const;
  /// The unchanged job with another number of ranks per node.
  std::optional<Outcome> on_nodes_of(std::int64_t ranks_per_node) const;
  /// The memory of a GPU. Precondition: options() have it.
  Bytes memory() const;
  /// Whether the memory of a GPU is known and this fits into it.
  bool fits(const StepCost& cost) const { return options_.memory && cost.memory <= *options_.memory; }
  /// Time an outcome saves per iteration; nothing without times.
  std::optional<std::chrono::nanoseconds> time_saved(const Outcome& outcome) const;
  /// The largest share that an outcome saves: of the wire bytes, those between nodes, the calls, the calls'
  /// time or the step (bubble). Calls count only while the wire bytes do not grow by more than a hundredth.
  double saved_share(const Outcome& outcome) const;
  /// Whether that share is large enough for a recommendation.
  bool is_worth(const Outcome& outcome) const { return saved_share(outcome) >= options_.least_saving; }
  /// Replaces `best` by `tried` if that fits into the memory, is worth a recommendation and saves a larger
  /// share.
  void keep_best(std::optional<Outcome>& best, std::optional<Outcome> tried) const;

  /// The same without calls: for changes that cost memory, which a few calls do not justify.
  bool is_worth_memory(const Outcome& outcome) const;

  /// Recommends with time_saved as its time; if the trace has times but not for these calls, a note says so.
  void recommend(Change change, const Outcome& outcome);
  /// The same with an estimate of another kind than time_saved.
  void recommend(Change change, const Outcome& outcome, std::chrono::nanoseconds saved, std::string source);
  void leave(std::string why) { advice_.not_advised.push_back(std::move(why)); }
  void cannot_judge(std::string why) { advice_.not_judged.push_back(std::move(why)); }

  /// The recommendations, the most useful first.
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

/// "12 %", "1.5 %" of `whole`; "0.0 %" if `whole` is 0.
std::string share_text(double part, double whole);
/// "1.50 MiB more", "1.50 MiB less", "as much memory".
std::string change_text(Bytes added);
/// The owner of the settings for users of the job's framework: "of commlens train".
std::string settings_place(const Job& job);
/// The setting's value in the job, in the syntax of the framework, and its section.
std::string setting_text(const Job& job, Setting setting);
/// The same of the job's micro-batches, which add up to one optimizer step or fill a pipeline.
std::string batch_text(const Job& job);
/// Changes of the framework's own settings for a topic; empty if there is nothing to gain.
std::vector<AdvisedChange> advised_changes(const Job& job, AdviceTopic topic);
/// Whether activations can be split along the sequence.
bool has_sequence_parallelism(const Job& job);
/// Bytes of a gradient bucket; 0 where the framework has none.
Bytes bucket_of(const Job& job);

}  // namespace commlens
