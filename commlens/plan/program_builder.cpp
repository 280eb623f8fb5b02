#include "commlens/plan/program_builder.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

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

/// "tp", "dp block 4", "pp to next": the communicator that a rank uses for a group.
std::string communicator_name(const GroupPattern& pattern) {
  using Shape = GroupPattern::Shape;
  switch (pattern.shape) {
    case Shape::to_next:
      return fmt::format("{} to next", name_of(pattern.axis));
    case Shape::to_previous:
      return fmt::format("{} to previous", name_of(pattern.axis));
    case Shape::from_next:
      return fmt::format("{} from next", name_of(pattern.axis));
    case Shape::from_previous:
      return fmt::format("{} from previous", name_of(pattern.axis));
    case Shape::mesh:
      break;
  }
  std::string name(name_of(pattern.axis));
  for (const AxisSpan& part : pattern.spans) {
    switch (part.span.shape) {
      case Span::Shape::block:
        name += fmt::format(" block {}", part.span.step);
        break;
      case Span::Shape::stride:
        name += fmt::format(" stride {}", part.span.step);
        break;
      case Span::Shape::ends:
        name += " ends";
        break;
      case Span::Shape::own:
      case Span::Shape::all:
        break;
    }
  }
  return name;
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

ProgramBuilder::ProgramBuilder(Plan& plan) : plan_(&plan), groups(plan.tables.groups) {}

void ProgramBuilder::set_phase(Phase phase, std::int32_t micro_batch) {
  if (phase != phase_ || micro_batch != micro_batch_) {
    close_work();
  }
  phase_ = phase;
  micro_batch_ = micro_batch;
}

void ProgramBuilder::add(CommOp op, const Rule& rule, std::string_view tag) {
  const auto [known, is_new] = rule_ids_.try_emplace(&rule, RuleId{});
  if (is_new) {
    known->second = plan_->tables.intern(rule);
  }
  op.phase = phase_;
  op.match = is_expected_ ? Match::count : match_;
  op.reduction = is_reducing(op.kind) ? reduction_ : Reduction::unknown;
  op.rule = known->second;
  if (!tag.empty()) {
    op.tag = tag_id(tag);
  }
  close_work();
  add_step({.kind = PlanStep::Kind::call,
            .stream = stream_of(op),
            .row = static_cast<std::uint32_t>(plan_->tables.intern(op)),
            .micro_batch = micro_batch_},
           waiting_ != Waiting::batched);
  last_call_ = static_cast<StepIndex>(program_.steps.size() - 1);
  if (waiting_ == Waiting::at_once) {
    awaited_.assign(1, last_call_);  // which waited for those before
    batch_.clear();
    computed_.reset();
  } else if (waiting_ == Waiting::batched) {
    batch_.push_back(last_call_);
  }
}

/// Rules use a few literals again and again: looked up by their address, then compared.
TagId ProgramBuilder::tag_id(std::string_view tag) {
  KnownTag& known = tags_[(reinterpret_cast<std::uintptr_t>(tag.data()) >> 3) % tags_.size()];
  if (known.text != tag) {
    known = {std::string(tag), plan_->tables.tags.intern(tag)};
  }
  return known.id;
}

void ProgramBuilder::add_step(PlanStep step, bool waits_for_batch) {
  step.first_wait = static_cast<std::uint32_t>(program_.waits.size());
  const auto wait = [&](StepIndex earlier) {
    if (program_.steps[earlier].stream != step.stream) {
      program_.waits.push_back(earlier);
    }
  };
  std::for_each(awaited_.begin(), awaited_.end(), wait);
  if (computed_) {
    wait(*computed_);
  }
  if (waits_for_batch) {
    std::for_each(batch_.begin(), batch_.end(), wait);
  }
  const std::size_t waits = program_.waits.size() - step.first_wait;
  COMMLENS_CHECK(waits <= std::numeric_limits<std::uint16_t>::max(), "rules wait for few calls at a time");
  step.waits = static_cast<std::uint16_t>(waits);
  program_.steps.push_back(step);
}

void ProgramBuilder::wait_for(StepIndex call) {
  close_work();
  const StreamId stream = program_.steps[call].stream;
  const auto same = std::find_if(awaited_.begin(), awaited_.end(),
                                 [&](StepIndex earlier) { return program_.steps[earlier].stream == stream; });
  if (same == awaited_.end()) {
    awaited_.push_back(call);
  } else {
    *same = std::max(*same, call);  // which follows the other
  }
}

IssueMoment ProgramBuilder::moment() {
  close_work();
  return {computed_, awaited_};
}

void ProgramBuilder::issue_from(const IssueMoment& moment, const std::function<void()>& issue) {
  close_work();
  const std::optional<StepIndex> computed = std::exchange(computed_, moment.computed);
  std::vector<StepIndex> awaited = std::exchange(awaited_, moment.awaited);
  std::vector<StepIndex> batch = std::exchange(batch_, {});
  const Waiting waiting = std::exchange(waiting_, Waiting::later);
  issue();
  computed_ = computed;
  awaited_ = std::move(awaited);
  batch_ = std::move(batch);
  waiting_ = waiting;
}

void ProgramBuilder::compute(KernelListId kernels) {
  if (kernels != k_no_kernels) {
    row_.push_back(kernels);
  }
}

void ProgramBuilder::close_work() {
  if (row_.empty()) {
    return;
  }
  const WorkId work = plan_->works.intern(phase_, plan_->job.train.dtype, row_);
  row_.clear();
  add_step({.kind = PlanStep::Kind::work,
            .stream = k_compute_stream,
            .row = static_cast<std::uint32_t>(work),
            .micro_batch = micro_batch_},
           true);
  awaited_.clear();
  batch_.clear();
  computed_ = static_cast<StepIndex>(program_.steps.size() - 1);
}

StreamId ProgramBuilder::stream_of(const CommOp& op) {
  const bool is_beside_sends = waiting_ != Waiting::at_once && op.kind == CommKind::recv;
  std::vector<std::optional<StreamId>>& streams = is_beside_sends ? receiving_ : streams_;
  const auto row = static_cast<std::size_t>(op.group);
  if (row >= streams.size()) {
    streams.resize(row + 1);
  }
  if (!streams[row]) {
    const std::string name = communicator_name(*plan_->tables.groups.pattern(op.group));
    streams[row] = stream_named(is_beside_sends ? name + " in" : name);
  }
  return *streams[row];
}

StreamId ProgramBuilder::stream_named(const std::string& name) {
  std::vector<std::string>& names = plan_->streams;
  const auto known = std::find(names.begin(), names.end(), name);
  const StreamId stream{static_cast<std::uint8_t>(known - names.begin())};
  if (known == names.end()) {
    COMMLENS_CHECK(names.size() <= std::numeric_limits<std::uint8_t>::max(), "rules use few communicators");
    names.push_back(name);
  }
  return stream;
}

void ProgramBuilder::all_reduce(GroupId group, Elements count, DType dtype, const Rule& rule,
                                std::string_view tag) {
  add({.kind = CommKind::all_reduce, .dtype = dtype, .group = group, .input = count, .output = count}, rule,
      tag);
}

void ProgramBuilder::all_gather(GroupId group, Elements shard, DType dtype, const Rule& rule,
                                std::string_view tag) {
  const Elements whole = shard * plan_->tables.groups.size(group);
  add({.kind = CommKind::all_gather, .dtype = dtype, .group = group, .input = shard, .output = whole}, rule,
      tag);
}

void ProgramBuilder::reduce_scatter(GroupId group, Elements shard, DType dtype, const Rule& rule,
                                    std::string_view tag) {
  const Elements whole = shard * plan_->tables.groups.size(group);
  add({.kind = CommKind::reduce_scatter, .dtype = dtype, .group = group, .input = whole, .output = shard},
      rule, tag);
}

void ProgramBuilder::all_gather_whole(GroupId group, Elements whole, DType dtype, const Rule& rule,
                                      std::string_view tag) {
  const Elements shard{ceil_div(whole.value, plan_->tables.groups.size(group))};
  add({.kind = CommKind::all_gather, .dtype = dtype, .group = group, .input = shard, .output = whole}, rule,
      tag);
}

void ProgramBuilder::reduce_scatter_whole(GroupId group, Elements whole, DType dtype, const Rule& rule,
                                          std::string_view tag) {
  const Elements shard{ceil_div(whole.value, plan_->tables.groups.size(group))};
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

namespace {

CommOp rooted(CommKind kind, Rooted at, Elements count, DType dtype) {
  return {.kind = kind, .dtype = dtype, .group = at.group, .input = count, .output = count, .root = at.root};
}

}  // namespace

void ProgramBuilder::broadcast(Rooted at, Elements count, DType dtype, const Rule& rule,
                               std::string_view tag) {
  add(rooted(CommKind::broadcast, at, count, dtype), rule, tag);
}

void ProgramBuilder::reduce(Rooted at, Elements count, DType dtype, const Rule& rule, std::string_view tag) {
  add(rooted(CommKind::reduce, at, count, dtype), rule, tag);
}

void ProgramBuilder::send(GroupId pair, Elements count, DType dtype, const Rule& rule, std::string_view tag) {
  add({.kind = CommKind::send, .dtype = dtype, .group = pair, .input = count, .output = {}}, rule, tag);
}

void ProgramBuilder::recv(GroupId pair, Elements count, DType dtype, const Rule& rule, std::string_view tag) {
  add({.kind = CommKind::recv, .dtype = dtype, .group = pair, .input = {}, .output = count}, rule, tag);
}

void ProgramBuilder::scatter(Rooted at, Elements input, Elements part, DType dtype, const Rule& rule,
                             std::string_view tag) {
  add({.kind = CommKind::other,
       .dtype = dtype,
       .group = at.group,
       .input = input,
       .output = part,
       .root = at.root,
       .name = plan_->tables.names.intern("scatter")},
      rule, tag);
}

void ProgramBuilder::gather(Rooted at, Elements part, Elements output, DType dtype, const Rule& rule,
                            std::string_view tag) {
  add({.kind = CommKind::other,
       .dtype = dtype,
       .group = at.group,
       .input = part,
       .output = output,
       .root = at.root,
       .name = plan_->tables.names.intern("gather")},
      rule, tag);
}

void ProgramBuilder::barrier(GroupId group, const Rule& rule) {
  add({.kind = CommKind::barrier, .group = group}, rule, "");
}

Program ProgramBuilder::take() {
  close_work();
  if (computed_) {
    program_.open.push_back(*computed_);
  }
  program_.open.insert(program_.open.end(), awaited_.begin(), awaited_.end());
  program_.open.insert(program_.open.end(), batch_.begin(), batch_.end());
  awaited_.clear();
  batch_.clear();
  computed_.reset();
  last_call_ = 0;
  return std::exchange(program_, {});
}

}  // namespace commlens
