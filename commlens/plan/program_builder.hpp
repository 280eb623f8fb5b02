#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "commlens/plan/plan.hpp"

namespace commlens {

/// The groups that rules speak of, as patterns of the plan's mesh. A rule that asks for an axis which the
/// mesh lacks stops the program; of an axis of degree 1 it gets a group of the rank alone.
class AxisGroups {
 public:
  explicit AxisGroups(GroupTable& groups);

  /// All positions along an axis.
  GroupId along(const Axis& axis) const;
  /// All ranks along these axes of one view, as a group called `axis`.
  GroupId over(const Axis& axis, std::vector<AxisSpan> spans) const;
  /// The ordered pair with a neighbour along an axis: of a send [self, neighbour], of a receive the reverse.
  GroupId pair(const Axis& axis, GroupPattern::Shape shape) const;

 private:
  GroupTable* groups_;

 public:
  GroupId dp;     // all data positions
  GroupId tp;     // all tensor positions
  GroupId pp;     // all stages
  GroupId model;  // one replica: all stages and tensor positions
  GroupId world;
  GroupId ends;     // first and last stage
  GroupId to_next;  // the ordered pair of a send to the next stage
  GroupId to_previous;
  GroupId from_next;  // the ordered pair of a receive from the next stage
  GroupId from_previous;
};

/// A group and the one of its ranks that a broadcast starts from or a reduction ends at.
struct Rooted {
  GroupId group;
  GroupRank root;
};

/// What waits for a call.
enum class Waiting : std::uint8_t {
  at_once,  // all that is issued later: a blocking call, or one whose wait() follows
  batched,  // all that is issued later but the other calls of the batch, which follow at once
  later     // nothing but what wait_for() says
};

/// What calls that are issued at a moment begin after.
struct IssueMoment {
  std::optional<StepIndex> computed;  // the last work
  std::vector<StepIndex> awaited;     // calls that were waited for
};

/// Writes the steps of one class of ranks, one program (initialisation or an iteration) after the other, in
/// the order in which a rank issues them. Every step carries the phase and micro-batch set last.
///
/// Each communicator has a stream of its own. A call begins after what its rank computed before it, and after
/// the calls that this waited for; computing begins after the calls that `Waiting` names. Source: NCCL's
/// semantics as PyTorch has them, ProcessGroupNCCL.cpp (one stream per communicator, which waits for the
/// current one when a call is issued; wait() makes the current one wait).
class ProgramBuilder {
 public:
  /// `plan` receives ops, groups, rules, tags, works and streams; it outlives the builder.
  explicit ProgramBuilder(Plan& plan);

  void set_phase(Phase phase, std::int32_t micro_batch = k_no_micro_batch);
  std::int32_t micro_batch() const { return micro_batch_; }
  /// Of the calls that follow; at first `at_once`.
  void set_waiting(Waiting waiting) { waiting_ = waiting; }
  /// Of the calls that follow and reduce; at first unknown.
  void set_reduction(Reduction reduction) { reduction_ = reduction; }
  /// How the calls that follow are compared; at first exact.
  void set_match(Match match) { match_ = match; }
  /// The call written last.
  StepIndex last_call() const { return last_call_; }
  /// What is issued from now on waits for that call of this program.
  void wait_for(StepIndex call);

  /// What a call begins after if it is issued now. Of this program.
  IssueMoment moment();
  /// What `issue` calls begins after what was computed and waited for at an earlier moment: a stream beside
  /// the computing one issues it. Nothing waits for these calls but what wait_for() says.
  void issue_from(const IssueMoment& moment, const std::function<void()>& issue);

  /// Computes on the compute stream: kernels of one micro-batch, in a row with those before.
  void compute(KernelListId kernels);
  KernelListId intern(std::vector<Kernel> kernels) { return plan_->works.intern(std::move(kernels)); }

  void all_reduce(GroupId group, Elements count, DType dtype, const Rule& rule, std::string_view tag = "");
  /// `shard` is this rank's part; the gathered whole is shard times the group size.
  void all_gather(GroupId group, Elements shard, DType dtype, const Rule& rule, std::string_view tag = "");
  /// The same from the whole: shards of ceil(whole / group size), the gathered tensor without padding.
  void all_gather_whole(GroupId group, Elements whole, DType dtype, const Rule& rule,
                        std::string_view tag = "");
  void reduce_scatter_whole(GroupId group, Elements whole, DType dtype, const Rule& rule,
                            std::string_view tag = "");
  /// `shard` is what this rank keeps; the input is shard times the group size.
  void reduce_scatter(GroupId group, Elements shard, DType dtype, const Rule& rule,
                      std::string_view tag = "");
  /// `count` is all this rank sends, and all it receives.
  void all_to_all(GroupId group, Elements count, DType dtype, const Rule& rule, std::string_view tag = "");
  /// The same with sizes that routing decides: `count`, `shard` are means (Match::count).
  void expected_all_to_all(GroupId group, Elements count, DType dtype, const Rule& rule,
                           std::string_view tag = "");
  void expected_all_gather(GroupId group, Elements shard, DType dtype, const Rule& rule,
                           std::string_view tag = "");
  void expected_reduce_scatter(GroupId group, Elements shard, DType dtype, const Rule& rule,
                               std::string_view tag = "");
  void broadcast(Rooted at, Elements count, DType dtype, const Rule& rule, std::string_view tag = "");
  void reduce(Rooted at, Elements count, DType dtype, const Rule& rule, std::string_view tag = "");
  void send(GroupId pair, Elements count, DType dtype, const Rule& rule, std::string_view tag = "");
  void recv(GroupId pair, Elements count, DType dtype, const Rule& rule, std::string_view tag = "");
  /// The root gives each rank its part; `input` is 0 elsewhere.
  void scatter(Rooted at, Elements input, Elements part, DType dtype, const Rule& rule,
               std::string_view tag = "");
  /// The reverse: `output` is 0 but at the root.
  void gather(Rooted at, Elements part, Elements output, DType dtype, const Rule& rule,
              std::string_view tag = "");
  void barrier(GroupId group, const Rule& rule);

  /// The steps written since the last take.
  Program take();

  Trace& tables() { return plan_->tables; }
  const Job& job() const { return plan_->job; }

 private:
  void add(CommOp op, const Rule& rule, std::string_view tag);
  void add_step(PlanStep step, bool waits_for_batch);
  /// Ends the row of kernels under way.
  void close_work();
  /// Of its communicator. Receives that nothing waits for at once are beside sends: those of a batch are one
  /// group of NCCL's, which moves at once, and pairs of ranks order others as their schedules do.
  StreamId stream_of(const CommOp& op);
  StreamId stream_named(const std::string& name);
  TagId tag_id(std::string_view tag);

  struct KnownTag {
    std::string text;
    TagId id{};
  };
  Plan* plan_;
  Phase phase_ = Phase::other;
  std::int32_t micro_batch_ = k_no_micro_batch;
  bool is_expected_ = false;  // sizes are means
  Waiting waiting_ = Waiting::at_once;
  Reduction reduction_ = Reduction::unknown;
  Match match_ = Match::exact;
  Program program_;
  std::vector<KernelListId> row_;      // kernels that are no step yet
  std::optional<StepIndex> computed_;  // the last work, unless a call that is waited for implies it
  std::vector<StepIndex> awaited_;     // calls that all that follows waits for
  std::vector<StepIndex> batch_;       // calls that the next work waits for
  StepIndex last_call_ = 0;
  std::vector<std::optional<StreamId>> streams_;    // by group
  std::vector<std::optional<StreamId>> receiving_;  // of receives in batches, by group
  std::array<KnownTag, 64> tags_;
  std::unordered_map<const Rule*, RuleId> rule_ids_;  // rules are constants of the rule sets

 public:
  AxisGroups groups;
};

}  // namespace commlens
