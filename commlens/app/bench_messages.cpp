#include "commlens/app/bench_messages.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/bench_plan.hpp"
#include "commlens/app/predict.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/summary/breakdown.hpp"

namespace commlens {
namespace {

using bench::BenchCase;
using bench::BenchOp;
using bench::GroupSet;

std::optional<BenchCase> case_of_kind(const CommOp& op, std::int64_t ranks) {
  BenchCase timed{.dtype = op.dtype, .message = op.input, .ranks = ranks};
  timed.root = op.root.value_or(GroupRank{0}).value;
  const bool has_equal_parts = op.input.value % ranks == 0 && op.input == op.output;
  switch (op.kind) {
    case CommKind::all_reduce:
      timed.op = BenchOp::all_reduce;
      return timed;
    case CommKind::all_gather:
      timed.op = op.output == op.input * ranks ? BenchOp::all_gather : BenchOp::all_gather_v;
      timed.message = op.output;
      return timed;
    case CommKind::reduce_scatter:
      timed.op = op.input == op.output * ranks ? BenchOp::reduce_scatter : BenchOp::reduce_scatter_v;
      return timed;
    case CommKind::all_to_all:
      timed.op = has_equal_parts ? BenchOp::all_to_all : BenchOp::all_to_all_v;
      return timed;
    case CommKind::broadcast:
      timed.op = BenchOp::broadcast;
      return timed;
    case CommKind::reduce:
      timed.op = BenchOp::reduce;
      return timed;
    case CommKind::send:
    case CommKind::recv:
      timed.op = BenchOp::send;
      timed.message = op.kind == CommKind::send ? op.input : op.output;
      timed.root = 0;
      return timed;
    case CommKind::barrier:
      timed.op = BenchOp::barrier;
      timed.dtype = DType::uint8;
      return timed;
    case CommKind::other:
      break;
  }
  return std::nullopt;
}

/// The op that makes such a call, and its message; std::nullopt for calls without one. In one buffer where
/// trainers have one: gradients are reduced, and parameters broadcast, where they are.
std::optional<BenchCase> case_of_op(const CommOp& op, std::int64_t ranks) {
  std::optional<BenchCase> timed = case_of_kind(op, ranks);
  if (timed) {
    timed->in_place = bench::may_be_in_place(timed->op);
  }
  return timed;
}

/// Calls of one key.
struct GatheredCalls {
  BenchCase timed;
  std::set<std::vector<std::int64_t>> groups;
  std::vector<std::int64_t> of_class;
};

/// The calls of all classes of ranks, by key.
class MessageGatherer {
 public:
  explicit MessageGatherer(const BenchMessages& messages)
      : trace_(messages.trace), ranks_(messages.ranks), classes_(messages.trace.streams.size()) {}

  void gather() {
    for (std::size_t place = 0; place < classes_; ++place) {
      const RankStream& stream = trace_.streams[place];
      std::map<OpId, std::int64_t> calls;
      for (const CommEvent& event : stream.events) {
        ++calls[event.op];
      }
      for (const auto& [op, count] : calls) {
        add(place, stream, trace_.op(op), count);
      }
    }
  }

  /// Calls that cannot be timed, by reason.
  const std::map<std::string, std::int64_t>& skipped() const { return skipped_; }
  const std::vector<BenchKey>& order() const { return order_; }
  const GatheredCalls& at(const BenchKey& key) const { return found_.at(key); }
  std::int64_t total_of_class(std::size_t place) const {
    std::int64_t total = 0;
    for (const auto& [key, calls] : found_) {
      total += calls.of_class[place];
    }
    return total;
  }

 private:
  void add(std::size_t place, const RankStream& stream, const CommOp& op, std::int64_t count) {
    const std::int64_t ranks = trace_.groups.size(op.group);
    const std::optional<BenchCase> timed = ranks > 0 ? case_of_op(op, ranks) : std::nullopt;
    const char* const reason = !timed                                   ? "of a kind that has no op"
                               : ranks == 1                             ? "of one rank"
                               : !trace_.groups.knows_members(op.group) ? "of ranks that are not known"
                                                                        : nullptr;
    if (reason != nullptr) {
      skipped_[reason] += count * stream.ranks.count();
      return;
    }
    const Axis axis = axis_in(trace_, op, ranks_);
    const BenchKey key{std::string(name_of(timed->op)),
                       std::string(name_of(timed->dtype)),
                       std::string(name_of(axis)),
                       ranks,
                       timed->bytes().value,
                       timed->in_place};
    const auto [entry, is_new] = found_.try_emplace(key);
    if (is_new) {
      order_.push_back(key);
      entry->second.timed = *timed;
      entry->second.of_class.resize(classes_);
    }
    entry->second.of_class[place] += count;
    for (const Rank rank : stream.ranks) {
      std::vector<std::int64_t> group;
      for (const Rank member : trace_.groups.members(op.group, rank)) {
        group.push_back(member.value);
      }
      entry->second.groups.insert(std::move(group));
    }
  }

  const Trace& trace_;
  std::int64_t ranks_;
  std::size_t classes_;
  std::vector<BenchKey> order_;  // of first appearance
  std::map<BenchKey, GatheredCalls> found_;
  std::map<std::string, std::int64_t> skipped_;
};

std::string ranks_text_of(const RankRange& ranks) {
  if (ranks.first == ranks.last) {
    return fmt::format("rank {}", ranks.first.value);
  }
  return ranks.is_gapless() ? fmt::format("ranks {}-{}", ranks.first.value, ranks.last.value)
                            : fmt::format("ranks {}-{} (some)", ranks.first.value, ranks.last.value);
}

Result<BenchMessages> predicted_messages(const BenchRequest& request) {
  PredictRequest predict;
  predict.config = request.messages;
  predict.framework = request.framework;
  predict.overrides = request.overrides;
  predict.events = request.events;
  return plan_of(predict).map([&](const Plan& plan) {
    BenchMessages messages;
    const Iteration steady = plan.steady_iteration();
    messages.trace = plan.trace_of({steady});
    messages.ranks = plan.job.layout.ranks;
    messages.description = fmt::format("{}, {} ranks, the iteration that repeats",
                                       fmt::join(request.messages, " "), messages.ranks);
    return messages;
  });
}

Result<BenchMessages> messages_of_trace(const BenchRequest& request) {
  const std::string& argument = request.messages.front();
  Overrides layout = request.overrides;
  layout.ranks.reset();  // compared with the trace's
  if (layout != Overrides() || !request.framework.empty()) {
    return failure(
        fmt::format("{} is a trace: --framework and the layout flags are for configurations; leave them out",
                    shown_name(argument)));
  }
  return open_trace(request.events, argument).and_then([&](Trace trace) -> Result<BenchMessages> {
    BenchMessages messages;
    messages.ranks = ranks_of_job(trace);
    warn_of_lost_calls(request.events, argument, trace);
    std::vector<Iteration> iterations = trace.iterations();
    if (iterations.size() > 1 && !trace.provenance.skipped.empty()) {
      iterations.pop_back();  // the one that lost calls: recordings are cut off at their end
    }
    if (!iterations.empty()) {
      for (RankStream& stream : trace.streams) {
        stream.times.clear();
        std::erase_if(stream.events,
                      [&](const CommEvent& event) { return event.iteration != iterations.back(); });
      }
    }
    messages.description = fmt::format(
        "{}, {} ranks, {}", shown_name(argument), messages.ranks,
        iterations.empty() ? std::string("all calls") : fmt::format("iteration {}", iterations.back()));
    messages.trace = std::move(trace);
    return Result<BenchMessages>(std::move(messages));
  });
}

}  // namespace

Result<BenchMessages> bench_messages(const BenchRequest& request) {
  const bool is_trace = request.messages.size() == 1 && names_trace(request.messages.front());
  return is_trace ? messages_of_trace(request) : predicted_messages(request);
}

Result<BenchPlan> plan_of_messages(const BenchMessages& messages, const Events& events) {
  MessageGatherer gatherer(messages);
  gatherer.gather();
  for (const auto& [reason, calls] : gatherer.skipped()) {
    events.warn(fmt::format("{} calls {} are not timed", with_commas(calls), reason));
  }
  BenchPlan plan;
  plan.messages = messages.description;
  std::size_t busiest = 0;
  for (std::size_t place = 0; place < messages.trace.streams.size(); ++place) {
    plan.classes.push_back(ranks_text_of(messages.trace.streams[place].ranks));
    busiest = gatherer.total_of_class(place) > gatherer.total_of_class(busiest) ? place : busiest;
  }
  for (const BenchKey& key : gatherer.order()) {
    const GatheredCalls& calls = gatherer.at(key);
    BenchPlanRow row{key, calls.of_class.at(busiest), 0, calls.of_class};
    for (std::size_t place = 0; place < calls.of_class.size(); ++place) {
      *row.calls_all_ranks += calls.of_class[place] * messages.trace.streams[place].ranks.count();
    }
    const GroupSet set{key.group, bench::apart({calls.groups.begin(), calls.groups.end()})};
    add_row(plan, row, {calls.timed}, {set});
  }
  return plan.rows.empty()
             ? Result<BenchPlan>(failure(fmt::format("{}: has no messages to time", messages.description)))
             : Result<BenchPlan>(std::move(plan));
}

}  // namespace commlens
