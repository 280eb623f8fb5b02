#include "commlens/app/bench_messages.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/app/bench_plan.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/base/check.hpp"

namespace commlens {
namespace {

using bench::BenchCase;
using bench::BenchOp;

std::optional<BenchCase> case_of_kind(const ModelMessage& op) {
  const std::int64_t ranks = op.ranks;
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

/// The op that makes such a call, and its message. In one buffer where trainers have one: gradients are
/// reduced, and parameters broadcast, where they are.
BenchCase case_of_message(const ModelMessage& message) {
  const std::optional<BenchCase> timed = case_of_kind(message);
  COMMLENS_CHECK(timed, "messages of a model are of kinds that transports make");
  BenchCase made = *timed;
  made.in_place = bench::may_be_in_place(made.op);
  return made;
}

/// A rank's part of a call whose parts may be unequal: of all_gather what it gives, of reduce_scatter what it
/// gets. std::nullopt: of other ops, whose parts no record has.
std::optional<Elements> own_part(const ModelMessage& message, const BenchCase& timed) {
  return timed.op == BenchOp::all_gather_v       ? std::optional(message.input)
         : timed.op == BenchOp::reduce_scatter_v ? std::optional(message.output)
                                                 : std::nullopt;
}

/// Calls of one key.
struct GatheredCalls {
  BenchCase timed;
  std::vector<double> of_class;
  std::set<std::vector<std::int64_t>> groups;
  /// Of each group: the parts of its ranks, each rank's once for each size that it has.
  std::map<std::vector<std::int64_t>, std::map<std::int64_t, std::set<std::int64_t>>> parts;
};

/// The messages of a model by the key of a row.
class MessageGatherer {
 public:
  explicit MessageGatherer(const ModelMessages& messages) : messages_(messages) {
    for (const auto& [reason, calls] : messages.left_out) {
      skipped_[reason] += calls;
    }
    for (const ModelMessage& message : messages.messages) {
      if (bench::has_unequal_parts(case_of_message(message).op)) {
        unequal_.insert(whole_of(message));
      }
    }
    for (const ModelMessage& message : messages.messages) {
      add(message);
    }
  }

  /// Calls that cannot be timed, by reason.
  const std::map<std::string, double>& skipped() const { return skipped_; }
  const std::vector<BenchKey>& order() const { return order_; }
  const GatheredCalls& at(const BenchKey& key) const { return found_.at(key); }
  double total_of_class(std::size_t place) const {
    double total = 0;
    for (const auto& [key, calls] : found_) {
      total += calls.of_class[place];
    }
    return total;
  }

 private:
  /// What all ranks of a call have in common.
  using Whole = std::tuple<CommKind, DType, Axis, std::int64_t, Elements>;

  static Whole whole_of(const ModelMessage& message) {
    return {message.kind, message.dtype, message.axis, message.ranks,
            std::max(message.input, message.output)};
  }

  /// One of unequal parts may be as large as an equal one would be: then other ranks of its group do not have
  /// it.
  BenchCase case_of_call(const ModelMessage& message) const {
    BenchCase timed = case_of_message(message);
    const bool has_all =
        std::all_of(message.callers.begin(), message.callers.end(), [&](const auto& callers) {
          return static_cast<std::int64_t>(callers.second.size()) == message.ranks;
        });
    if (!has_all && unequal_.contains(whole_of(message))) {
      timed.op = timed.op == BenchOp::all_gather       ? BenchOp::all_gather_v
                 : timed.op == BenchOp::reduce_scatter ? BenchOp::reduce_scatter_v
                                                       : timed.op;
    }
    return timed;
  }

  void add(const ModelMessage& message) {
    const BenchCase timed = case_of_call(message);
    if (message.callers.empty()) {
      skipped_["groups of ranks that are not known"] += job_calls(message, messages_.ranks_of_class);
      return;
    }
    const BenchKey key{std::string(name_of(timed.op)),
                       std::string(name_of(timed.dtype)),
                       std::string(name_of(message.axis)),
                       message.ranks,
                       timed.bytes().value,
                       timed.in_place};
    const auto [entry, is_new] = found_.try_emplace(key);
    GatheredCalls& calls = entry->second;
    if (is_new) {
      order_.push_back(key);
      calls.timed = timed;
      calls.of_class.resize(messages_.classes.size());
    }
    for (std::size_t place = 0; place < calls.of_class.size(); ++place) {
      calls.of_class[place] += message.calls_of_class[place];
    }
    for (const auto& [group, ranks] : message.callers) {
      calls.groups.insert(group);
      if (const std::optional<Elements> part = own_part(message, timed)) {
        for (const std::int64_t rank : ranks) {
          calls.parts[group][rank].insert(part->value);
        }
      }
    }
  }

  const ModelMessages& messages_;
  std::set<Whole> unequal_;      // those with parts of unequal sizes
  std::vector<BenchKey> order_;  // of first appearance
  std::map<BenchKey, GatheredCalls> found_;
  std::map<std::string, double> skipped_;
};

/// The parts of a call in group order; empty where they are not known: a rank of a group has several sizes,
/// or groups that make it at once have other parts.
std::vector<Elements> known_parts(const GatheredCalls& calls) {
  std::vector<Elements> known;
  for (const auto& [group, ranks] : calls.parts) {
    std::vector<Elements> parts;
    Elements sum;
    for (const std::int64_t member : group) {
      const auto sizes = ranks.find(member);
      if (sizes == ranks.end() || sizes->second.size() != 1) {
        return {};
      }
      parts.push_back({*sizes->second.begin()});
      sum += parts.back();
    }
    if (sum != calls.timed.message || (!known.empty() && parts != known)) {
      return {};
    }
    known = std::move(parts);
  }
  return known;
}

std::string ranks_text_of(const RankRange& ranks) {
  if (ranks.first == ranks.last) {
    return fmt::format("rank {}", ranks.first.value);
  }
  return ranks.is_gapless() ? fmt::format("ranks {}-{}", ranks.first.value, ranks.last.value)
                            : fmt::format("ranks {}-{} (some)", ranks.first.value, ranks.last.value);
}

/// The row of a key, and its case.
std::pair<BenchPlanRow, BenchCase> row_of(const BenchKey& key, const GatheredCalls& calls,
                                          std::size_t busiest, const ModelMessages& messages) {
  BenchPlanRow row;
  row.key = key;
  row.calls_all_ranks = 0;
  for (std::size_t place = 0; place < calls.of_class.size(); ++place) {
    row.calls_of_class.push_back(std::llround(calls.of_class[place]));
    *row.calls_all_ranks += row.calls_of_class.back() * messages.ranks_of_class[place];
  }
  row.calls = row.calls_of_class.at(busiest);
  BenchCase timed = calls.timed;
  timed.parts = known_parts(calls);
  row.assumes_parts = bench::has_unequal_parts(timed.op) && timed.parts.empty();
  return {std::move(row), std::move(timed)};
}

}  // namespace

Result<ModelMessages> bench_messages(const BenchRequest& request) {
  MessagesRequest asked;
  asked.input = request.messages;
  asked.framework = request.framework;
  asked.overrides = request.overrides;
  asked.usual = MessageIterations::last;  // whose calls are whole numbers
  asked.with_callers = true;
  asked.events = request.events;
  if (names_trace(request.messages.front())) {
    asked.overrides.ranks.reset();  // compared with the trace's
  }
  return model_messages(asked);
}

Result<BenchPlan> plan_of_messages(const ModelMessages& messages, const Events& events) {
  const MessageGatherer gatherer(messages);
  for (const auto& [reason, calls] : gatherer.skipped()) {
    events.warn(fmt::format("{} calls are not timed: {}", with_commas(std::llround(calls)), reason));
  }
  BenchPlan plan;
  plan.messages = fmt::format("{}, {} ranks, {}", messages.source, messages.job_ranks, messages.chosen);
  std::size_t busiest = 0;
  for (std::size_t place = 0; place < messages.classes.size(); ++place) {
    plan.classes.push_back(ranks_text_of(messages.classes[place]));
    busiest = gatherer.total_of_class(place) > gatherer.total_of_class(busiest) ? place : busiest;
  }
  for (const BenchKey& key : gatherer.order()) {
    const GatheredCalls& calls = gatherer.at(key);
    const auto [row, timed] = row_of(key, calls, busiest, messages);
    add_row(plan, row, {timed}, {{key.group, bench::apart({calls.groups.begin(), calls.groups.end()})}});
  }
  return plan.rows.empty()
             ? Result<BenchPlan>(failure(fmt::format("{}: has no messages to time", plan.messages)))
             : Result<BenchPlan>(std::move(plan));
}

}  // namespace commlens
