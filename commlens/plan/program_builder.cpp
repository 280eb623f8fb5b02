#include "commlens/plan/program_builder.hpp"

#include <utility>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

constexpr Span k_all{Span::Shape::all, 1};
constexpr Span k_ends{Span::Shape::ends, 1};

/// Every axis of the mesh's dense view.
std::vector<AxisSpan> all_axes(const Mesh& mesh) {
  std::vector<AxisSpan> spans;
  for (const MeshAxis& axis : mesh.dense().axes()) {
    spans.push_back({axis.axis, k_all});
  }
  return spans;
}

GroupId interned(GroupTable& groups, const Result<GroupPattern>& pattern) {
  COMMLENS_CHECK(pattern.has_value(), "rules use axes that the layout's mesh has");
  return groups.intern(*pattern);
}

}  // namespace

AxisGroups::AxisGroups(GroupTable& groups)
    : groups_(&groups),
      dp(along(Axis::dp)),
      tp(along(Axis::tp)),
      pp(along(Axis::pp)),
      model(over(Axis::model, {{Axis::pp, k_all}, {Axis::tp, k_all}})),
      world(over(Axis::world, all_axes(*groups.mesh()))),
      ends(over(Axis::pp, {{Axis::pp, k_ends}})),
      to_next(pair(Axis::pp, GroupPattern::Shape::to_next)),
      to_previous(pair(Axis::pp, GroupPattern::Shape::to_previous)),
      from_next(pair(Axis::pp, GroupPattern::Shape::from_next)),
      from_previous(pair(Axis::pp, GroupPattern::Shape::from_previous)) {}

GroupId AxisGroups::along(const Axis& axis) const { return over(axis, {{axis, k_all}}); }

GroupId AxisGroups::over(const Axis& axis, std::vector<AxisSpan> spans) const {
  return interned(*groups_, pattern_over(*groups_->mesh(), axis, std::move(spans)));
}

GroupId AxisGroups::pair(const Axis& axis, GroupPattern::Shape shape) const {
  return interned(*groups_, neighbour_pattern(*groups_->mesh(), axis, shape));
}

void ProgramBuilder::set_phase(Phase phase, std::int32_t micro_batch) {
  phase_ = phase;
  micro_batch_ = micro_batch;
}

void ProgramBuilder::add(CommOp op, const Rule& rule, std::string_view tag) {
  const auto [known, is_new] = rule_ids_.try_emplace(&rule, RuleId{});
  if (is_new) {
    known->second = tables_->intern(rule);
  }
  op.phase = phase_;
  op.data_dependent = is_expected_;
  op.rule = known->second;
  if (!tag.empty()) {
    op.tag = tables_->tags.intern(tag);
  }
  program_.push_back({tables_->intern(op), micro_batch_});
}

void ProgramBuilder::all_reduce(GroupId group, Elements count, DType dtype, const Rule& rule,
                                std::string_view tag) {
  add({.kind = CommKind::all_reduce, .dtype = dtype, .group = group, .input = count, .output = count}, rule,
      tag);
}

void ProgramBuilder::all_gather(GroupId group, Elements shard, DType dtype, const Rule& rule,
                                std::string_view tag) {
  const Elements whole = shard * tables_->groups.size(group);
  add({.kind = CommKind::all_gather, .dtype = dtype, .group = group, .input = shard, .output = whole}, rule,
      tag);
}

void ProgramBuilder::reduce_scatter(GroupId group, Elements shard, DType dtype, const Rule& rule,
                                    std::string_view tag) {
  const Elements whole = shard * tables_->groups.size(group);
  add({.kind = CommKind::reduce_scatter, .dtype = dtype, .group = group, .input = whole, .output = shard},
      rule, tag);
}

void ProgramBuilder::all_gather_whole(GroupId group, Elements whole, DType dtype, const Rule& rule,
                                      std::string_view tag) {
  const Elements shard{ceil_div(whole.value, tables_->groups.size(group))};
  add({.kind = CommKind::all_gather, .dtype = dtype, .group = group, .input = shard, .output = whole}, rule,
      tag);
}

void ProgramBuilder::reduce_scatter_whole(GroupId group, Elements whole, DType dtype, const Rule& rule,
                                          std::string_view tag) {
  const Elements shard{ceil_div(whole.value, tables_->groups.size(group))};
  add({.kind = CommKind::reduce_scatter, .dtype = dtype, .group = group, .input = whole, .output = shard},
      rule, tag);
}

void ProgramBuilder::all_to_all(GroupId group, Elements count, DType dtype, const Rule& rule,
                                std::string_view tag) {
  add({.kind = CommKind::all_to_all, .dtype = dtype, .group = group, .input = count, .output = count}, rule,
      tag);
}

void ProgramBuilder::expected_all_to_all(GroupId group, Elements count, DType dtype, const Rule& rule,
                                         std::string_view tag) {
  is_expected_ = true;
  all_to_all(group, count, dtype, rule, tag);
  is_expected_ = false;
}

void ProgramBuilder::expected_all_gather(GroupId group, Elements shard, DType dtype, const Rule& rule,
                                         std::string_view tag) {
  is_expected_ = true;
  all_gather(group, shard, dtype, rule, tag);
  is_expected_ = false;
}

void ProgramBuilder::expected_reduce_scatter(GroupId group, Elements shard, DType dtype, const Rule& rule,
                                             std::string_view tag) {
  is_expected_ = true;
  reduce_scatter(group, shard, dtype, rule, tag);
  is_expected_ = false;
}

void ProgramBuilder::broadcast(Rooted at, Elements count, DType dtype, const Rule& rule,
                               std::string_view tag) {
  add({.kind = CommKind::broadcast,
       .dtype = dtype,
       .group = at.group,
       .input = count,
       .output = count,
       .root = at.root},
      rule, tag);
}

void ProgramBuilder::reduce(Rooted at, Elements count, DType dtype, const Rule& rule, std::string_view tag) {
  add({.kind = CommKind::reduce,
       .dtype = dtype,
       .group = at.group,
       .input = count,
       .output = count,
       .root = at.root},
      rule, tag);
}

void ProgramBuilder::send(GroupId pair, Elements count, DType dtype, const Rule& rule, std::string_view tag) {
  add({.kind = CommKind::send, .dtype = dtype, .group = pair, .input = count, .output = {}}, rule, tag);
}

void ProgramBuilder::recv(GroupId pair, Elements count, DType dtype, const Rule& rule, std::string_view tag) {
  add({.kind = CommKind::recv, .dtype = dtype, .group = pair, .input = {}, .output = count}, rule, tag);
}

void ProgramBuilder::barrier(GroupId group, const Rule& rule) {
  add({.kind = CommKind::barrier, .group = group}, rule, "");
}

Program ProgramBuilder::take() { return std::exchange(program_, {}); }

}  // namespace commlens
