#pragma once
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

/// Writes the calls of one class of ranks, one program (initialisation or an iteration) after the other.
/// Every call carries the phase and micro-batch set last.
class ProgramBuilder {
 public:
  /// `tables` receives ops, groups, rules and tags; it outlives the builder.
  explicit ProgramBuilder(Trace& tables) : tables_(&tables), groups(tables.groups) {}

  void set_phase(Phase phase, std::int32_t micro_batch = k_no_micro_batch);

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
  /// The same with sizes that routing decides: `count`, `shard` are means (`data_dependent`).
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
  void barrier(GroupId group, const Rule& rule);

  /// The calls written since the last take.
  Program take();

  Trace& tables() { return *tables_; }

 private:
  void add(CommOp op, const Rule& rule, std::string_view tag);

  Trace* tables_;
  Phase phase_ = Phase::other;
  std::int32_t micro_batch_ = k_no_micro_batch;
  bool is_expected_ = false;  // sizes are means
  Program program_;
  std::unordered_map<const Rule*, RuleId> rule_ids_;  // rules are constants of the rule sets

 public:
  AxisGroups groups;
};

}  // namespace commlens
