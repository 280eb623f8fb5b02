#include "commlens/app/tune_rounds.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/app/launcher.hpp"
#include "commlens/bench/measure.hpp"
#include "commlens/bench/rounds.hpp"
#include "commlens/transport/reduce_kernels.hpp"
#include "commlens/tune/launches.hpp"

namespace commlens {
namespace {

using bench::BenchCase;
using bench::BenchOp;
using bench::CaseCalls;

std::optional<BenchOp> tuned_op(CommKind kind) {
  switch (kind) {
    case CommKind::all_reduce:
      return BenchOp::all_reduce;
    case CommKind::all_gather:
      return BenchOp::all_gather;
    case CommKind::reduce_scatter:
      return BenchOp::reduce_scatter;
    case CommKind::all_to_all:
      return BenchOp::all_to_all;
    case CommKind::broadcast:
      return BenchOp::broadcast;
    case CommKind::reduce:
      return BenchOp::reduce;
    case CommKind::barrier:
      return BenchOp::barrier;
    case CommKind::send:
    case CommKind::recv:
    case CommKind::other:
      break;
  }
  return std::nullopt;
}

/// The message as a call that is timed. The trainer's sums are in place, and so are broadcasts.
std::optional<BenchCase> case_of(const ModelMessage& message) {
  const std::optional<BenchOp> op = tuned_op(message.kind);
  if (!op) {
    return std::nullopt;
  }
  const bool is_output = message.kind == CommKind::all_gather;
  return BenchCase{.op = *op,
                   .dtype = message.dtype,
                   .message = is_output ? message.output : std::max(message.input, message.output),
                   .ranks = message.ranks,
                   .in_place = message.kind == CommKind::all_reduce || message.kind == CommKind::broadcast};
}

/// Why the message is not timed; empty: it is.
std::string obstacle(const ModelMessage& message, std::int64_t job_ranks) {
  const std::optional<BenchCase> timed = case_of(message);
  if (!timed) {
    return fmt::format("{} has no algorithms", name_of(message.kind));
  }
  if (message.ranks > job_ranks) {
    return fmt::format("groups of {} ranks, of which the job has {}", message.ranks, job_ranks);
  }
  const bool has_parts = message.kind == CommKind::all_gather || message.kind == CommKind::reduce_scatter ||
                         message.kind == CommKind::all_to_all;
  const Elements smaller = std::min(message.input, message.output);
  const Elements parts = message.kind == CommKind::all_to_all ? message.output : smaller * message.ranks;
  if (has_parts && (timed->message != parts || timed->message.value % message.ranks != 0)) {
    return "parts of unequal sizes";
  }
  if (is_reducing(message.kind) && !can_combine(message.dtype)) {
    return fmt::format("{} cannot be added", name_of(message.dtype));
  }
  return timed->message.value == 0 && message.kind != CommKind::barrier ? "messages of 0 bytes" : "";
}

/// The communicators of a rank: its group of each size, and one more for each algorithm.
class VariantGroups {
 public:
  explicit VariantGroups(Communicator& world) : world_(world) {}

  /// Null where this rank is in no whole group. Collective over the world.
  Communicator* group(std::int64_t ranks) {
    const auto [found, added] = groups_.try_emplace(ranks);
    if (added) {
      const std::int64_t place = world_.rank().value / ranks;
      const bool is_whole = (place + 1) * ranks <= world_.size();
      found->second = world_.split(is_whole ? place : -1, world_.rank().value);
    }
    return found->second.get();
  }

  /// The same with an algorithm. Collective over the world.
  Communicator* with(std::int64_t ranks, CommKind kind, const std::string& algorithm) {
    Communicator* const base = group(ranks);
    if (algorithm.empty() || base == nullptr) {
      return base;
    }
    const auto [found, added] = chosen_.try_emplace({ranks, kind, algorithm});
    if (added) {
      auto made = base->with_algorithm(kind, algorithm);
      if (!made) {
        throw SystemError(made.error().message);
      }
      found->second = std::move(*made);
    }
    return found->second.get();
  }

 private:
  Communicator& world_;
  std::map<std::int64_t, std::unique_ptr<Communicator>> groups_;
  std::map<std::tuple<std::int64_t, CommKind, std::string>, std::unique_ptr<Communicator>> chosen_;
};

/// A message and its variants as rows that are timed.
class TunedRows {
 public:
  TunedRows(Communicator& world, const ModelMessages& messages, Bytes buffers)
      : world_(world), groups_(world) {
    for (const ModelMessage& message : messages.messages) {
      add(message, messages.ranks_of_class);
    }
    settle_algorithms();
    make_calls(buffers);
  }

  const std::vector<bench::TimedRow>& rows() const { return rows_; }

  /// Hands the samples of the rows to the messages.
  TunedMessages result(bench::RoundResult timed) {
    auto row = timed.rows.begin();
    for (TunedMessage& message : found_.messages) {
      for (tune::Variant& variant : message.variants) {
        variant.rounds = std::move(row->round);
        variant.times_s = std::move(row->span_s);
        ++row;
      }
    }
    found_.rounds =
        std::max<std::int64_t>(0, timed.rounds - 1);  // the first one, which connects, is not timed
    found_.was_stopped = timed.was_stopped;
    found_.clock_error_s = timed.clock_error_s;
    return std::move(found_);
  }

 private:
  void add(const ModelMessage& message, const std::vector<std::int64_t>& ranks_of_class) {
    if (const std::string reason = obstacle(message, world_.size()); !reason.empty()) {
      found_.left_out[reason] += job_calls(message, ranks_of_class);
      return;
    }
    const BenchCase timed = *case_of(message);
    // A root's input and output may differ from those of other ranks: one message all the same.
    const auto known =
        std::find_if(found_.messages.begin(), found_.messages.end(), [&](const TunedMessage& one) {
          return one.timed.op == timed.op && one.timed.dtype == timed.dtype &&
                 one.timed.message == timed.message && one.timed.ranks == timed.ranks;
        });
    if (known == found_.messages.end()) {
      found_.messages.push_back({.timed = timed, .calls_of_class = message.calls_of_class});
      return;
    }
    for (std::size_t at = 0; at < message.calls_of_class.size(); ++at) {
      known->calls_of_class[at] += message.calls_of_class[at];
    }
  }

  /// The algorithms of each message, as the first rank has them: it is in a group of every size.
  void settle_algorithms() {
    for (TunedMessage& message : found_.messages) {
      Communicator* const group = groups_.group(message.timed.ranks);
      message.variants.push_back({});
      if (group != nullptr) {
        for (const std::string& name : group->algorithms(kind_of(message.timed.op))) {
          message.variants.push_back({.algorithm = name, .rounds = {}, .times_s = {}});
        }
      }
      fill_up(message);
    }
  }

  /// Ranks without a group make as many variants, in which they take no part.
  void fill_up(TunedMessage& message) {
    auto count = static_cast<std::int64_t>(message.variants.size());
    world_.run({.kind = CommKind::broadcast,
                .dtype = DType::int64,
                .input_buffer = &count,
                .output_buffer = &count,
                .input = {1},
                .output = {1},
                .peer = {0}});
    message.variants.resize(static_cast<std::size_t>(count));
  }

  void make_calls(Bytes buffers) {
    Bytes largest;
    for (const TunedMessage& message : found_.messages) {
      for (std::int64_t rank = 0; rank < message.timed.ranks; ++rank) {
        largest = std::max(largest, arena_bytes(message.timed, rank));
      }
    }
    arena_.emplace(largest, buffers);
    for (const TunedMessage& message : found_.messages) {
      for (const tune::Variant& variant : message.variants) {
        add_row(message, variant);
      }
    }
  }

  void add_row(const TunedMessage& message, const tune::Variant& variant) {
    const CommKind kind = kind_of(message.timed.op);
    Communicator* const group = groups_.with(message.timed.ranks, kind, variant.algorithm);
    bench::TimedRow row{.name = fmt::format("{} {}", name_of(kind), variant.algorithm), .call = {}};
    if (group != nullptr) {
      CaseCalls* const calls =
          calls_.emplace_back(std::make_unique<CaseCalls>(message.timed, *group, *arena_)).get();
      row.call = [calls] { calls->run(); };
      row.prepare = [calls] { calls->take_buffers(); };
    }
    rows_.push_back(std::move(row));
  }

  Communicator& world_;
  VariantGroups groups_;
  std::optional<bench::Arena> arena_;
  TunedMessages found_;  // not changed once calls_ refer to its messages
  std::vector<std::unique_ptr<CaseCalls>> calls_;
  std::vector<bench::TimedRow> rows_;
};

auto subject_of(const TunedMessage& message) {
  return std::tuple(message.timed.op, message.timed.ranks, message.timed.bytes());
}

/// Libraries tell sizes apart, and no types: a rule needs the same choice for all types of its size.
void refuse_rules_that_types_disagree_on(std::vector<TunedMessage>& messages) {
  for (TunedMessage& message : messages) {
    message.no_rule.clear();
    const auto algorithm = [](const TunedMessage& one) {
      return one.decision.variant == 0 ? std::string() : one.variants[one.decision.variant].algorithm;
    };
    const bool differs = std::any_of(messages.begin(), messages.end(), [&](const TunedMessage& other) {
      return subject_of(other) == subject_of(message) && algorithm(other) != algorithm(message);
    });
    if (differs && message.decision.variant > 0) {
      message.no_rule = "another element type of this size is not faster with it";
    }
  }
}

/// The step of one class of ranks.
tune::StepGain step_of_class(const TunedMessages& found, std::size_t place,
                             const tune::SelectionOptions& selection) {
  std::vector<tune::WeightedMessage> weighted;
  for (const TunedMessage& message : found.messages) {
    weighted.push_back(
        {message.variants, message.has_rule() ? message.decision.variant : 0, message.calls_of_class[place]});
  }
  return step_gain(weighted, selection);
}

}  // namespace

tune::Rule TunedMessage::rule() const {
  return {.kind = kind_of(timed.op),
          .ranks = timed.ranks,
          .message = timed.bytes(),
          .algorithm = variants.at(decision.variant).algorithm};
}

bool TunedMessages::has_enough_launches() const {
  return timed_launches == 1 || launches >= tune::k_fewest_launches;
}

bool TunedMessages::is_confirmed() const {
  return timed_launches == 1 ? step.gain_s.low > 0
                             : has_enough_launches() && tune::is_found_again(step.gain_s);
}

void settle_decisions(TunedMessages& found, const std::function<tune::StepGain(std::size_t place)>& step_of) {
  refuse_rules_that_types_disagree_on(found.messages);
  const std::size_t classes = found.messages.empty() ? 0 : found.messages.front().calls_of_class.size();
  double longest = -1;
  for (std::size_t place = 0; place < classes; ++place) {
    double time = 0;
    for (const TunedMessage& message : found.messages) {
      time += message.calls_of_class[place] * message.decision.default_s;
    }
    if (time > longest) {
      longest = time;
      found.step_class = place;
    }
  }
  if (classes > 0) {
    found.step = step_of(found.step_class);
  }
}

std::vector<tune::Rule> TunedMessages::rules() const {
  std::vector<tune::Rule> found;
  for (const TunedMessage& message : messages) {
    if (is_confirmed() && message.has_rule() &&
        std::find(found.begin(), found.end(), message.rule()) == found.end()) {
      found.push_back(message.rule());
    }
  }
  return found;
}

Bytes tuned_memory(const ModelMessages& messages, std::int64_t job_ranks, std::int64_t ranks_here) {
  bench::MeasurePlan plan{.groups = {},
                          .rows = {},
                          .is_cold = true,
                          .cache = bench::last_level_cache(),
                          .ranks_on_machine = ranks_here};
  for (const ModelMessage& message : messages.messages) {
    if (obstacle(message, job_ranks).empty()) {
      plan.rows.push_back({.calls = {{.timed = *case_of(message)}}});
    }
  }
  return plan.rows.empty() ? Bytes{} : bench::buffer_memory(plan);
}

TunedMessages tuned_messages(Communicator& world, const ModelMessages& messages,
                             const TuneRoundOptions& options) {
  const std::int64_t ranks_here = std::max<std::int64_t>(1, local_ranks(world.size()));
  TunedRows rows(
      world, messages,
      options.buffers.value_or(Bytes{tuned_memory(messages, world.size(), ranks_here).value / ranks_here}));
  bench::RoundOptions rounds{.seed = options.seed,
                             .least_rounds = options.most_rounds,
                             .most_rounds = options.most_rounds,
                             .time = options.time,
                             .settled = 0,
                             .stop_requested = options.stop_requested,
                             .clock = options.clock};
  if (options.progress) {
    const auto count = static_cast<std::int64_t>(rows.rows().size());
    rounds.has_more = [&, count](const bench::RoundResult& so_far) {
      options.progress(so_far.timed_rows, count);
    };
  }
  TunedMessages found = rows.result(timed_rounds(world, rows.rows(), rounds));
  if (world.rank() == GroupRank{0}) {
    for (TunedMessage& message : found.messages) {
      message.decision = decide(message.variants, options.selection);
    }
    settle_decisions(found,
                     [&](std::size_t place) { return step_of_class(found, place, options.selection); });
  } else {
    found.messages.clear();
  }
  return found;
}

}  // namespace commlens
