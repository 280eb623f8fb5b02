#include "commlens/app/model_messages.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "commlens/app/predict.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/summary/breakdown.hpp"
#include "commlens/trace/trace.hpp"
#include "commlens/trace/training_steps.hpp"

namespace commlens {
namespace {

/// Collects the messages of a trace's streams.
class MessageCollector {
 public:
  MessageCollector(const Trace& trace, std::set<Iteration> iterations, bool with_callers,
                   ModelMessages& found)
      : trace_(trace), iterations_(std::move(iterations)), with_callers_(with_callers), found_(found) {
    found_.iterations = std::max<std::int64_t>(1, static_cast<std::int64_t>(iterations_.size()));
    share_ = 1.0 / static_cast<double>(found_.iterations);
  }

  void collect() {
    for (const RankStream& stream : trace_.streams) {
      found_.classes.push_back(stream.ranks);
      found_.ranks_of_class.push_back(stream.ranks.count());
      std::vector<OpId> order;  // of first calls
      std::unordered_map<OpId, std::int64_t> calls;
      for (const CommEvent& event : stream.events) {
        if ((iterations_.empty() || iterations_.count(event.iteration) > 0) && ++calls[event.op] == 1) {
          order.push_back(event.op);
        }
      }
      for (const OpId op : order) {
        add(trace_.op(op), stream, calls.at(op));
      }
      ++class_;
    }
    for (ModelMessage& message : found_.messages) {
      message.calls_of_class.resize(class_);
    }
  }

 private:
  using Key =
      std::tuple<CommKind, DType, std::int64_t, std::int64_t, std::int64_t, Axis, std::optional<GroupRank>>;

  void add(const CommOp& op, const RankStream& stream, std::int64_t calls) {
    const std::int64_t of_all = calls * stream.ranks.count();
    if (op.kind == CommKind::other) {
      const std::string_view name = trace_.names.text(op.name);
      return leave_out(fmt::format("{} cannot be made by a transport", name.empty() ? "other" : name),
                       of_all);
    }
    const std::int64_t size = trace_.groups.size(op.group);
    if (size < 2) {
      return leave_out("groups of one rank", of_all);
    }
    const Axis axis = axis_in(trace_, op, found_.job_ranks);
    const Key key{op.kind, op.dtype, op.input.value, op.output.value, size, axis, op.root};
    const auto [place, added] = places_.try_emplace(key, found_.messages.size());
    if (added) {
      found_.messages.push_back({.kind = op.kind,
                                 .dtype = op.dtype,
                                 .input = op.input,
                                 .output = op.output,
                                 .ranks = size,
                                 .axis = axis,
                                 .root = op.root,
                                 .varies = false,
                                 .calls_of_class = {},
                                 .callers = {}});
    }
    ModelMessage& message = found_.messages[place->second];
    message.varies = message.varies || op.match == Match::count;
    message.calls_of_class.resize(std::max(message.calls_of_class.size(), class_ + 1));
    message.calls_of_class[class_] += share_ * static_cast<double>(calls);
    if (with_callers_ && trace_.groups.knows_members(op.group)) {
      add_callers(op, stream, message);
    }
  }

  void add_callers(const CommOp& op, const RankStream& stream, ModelMessage& message) const {
    for (const Rank rank : stream.ranks) {
      std::vector<std::int64_t> members;
      for (const Rank member : trace_.groups.members(op.group, rank)) {
        members.push_back(member.value);
      }
      message.callers[std::move(members)].insert(rank.value);
    }
  }

  void leave_out(const std::string& reason, std::int64_t calls) {
    found_.left_out[reason] += share_ * static_cast<double>(calls);
  }

  const Trace& trace_;
  std::set<Iteration> iterations_;  // empty: all events
  bool with_callers_;
  ModelMessages& found_;
  double share_ = 1;
  std::size_t class_ = 0;
  std::map<Key, std::size_t> places_;
};

Result<ModelMessages> checked_messages(ModelMessages found) {
  if (found.messages.empty()) {
    return failure(
        fmt::format("{}: no call of the iteration moves anything between ranks; choose a layout of "
                    "several ranks, or other iterations",
                    found.source));
  }
  return found;
}

Result<ModelMessages> predicted_messages(const MessagesRequest& request) {
  PredictRequest asked;
  asked.config = request.input;
  asked.framework = request.framework;
  asked.overrides = request.overrides;
  asked.events = request.events;
  return plan_of(asked).and_then([&](const Plan& plan) {
    ModelMessages found;
    found.source = fmt::format("{}", fmt::join(request.input, "+"));
    found.chosen = "the iteration that repeats";
    found.job_ranks = plan.job.layout.ranks;
    const Trace steady = plan.trace_of({plan.steady_iteration()});
    MessageCollector(steady, {}, request.with_callers, found).collect();
    return checked_messages(std::move(found));
  });
}

/// The iterations of a trace whose calls count; empty: it has none, and all calls count.
Result<std::set<Iteration>> chosen_iterations(const MessagesRequest& request, const Trace& trace) {
  const Result<std::optional<IterationRange>> range = iteration_range(request.iterations);
  if (!range) {
    return tl::unexpected(range.error());
  }
  std::set<Iteration> chosen;
  if (!*range && request.usual == MessageIterations::last) {
    std::vector<Iteration> all = trace.iterations();
    if (all.size() > 1 && !trace.provenance.skipped.empty()) {
      all.pop_back();  // the one that lost calls: recordings are cut off at their end
    }
    return all.empty() ? chosen : std::set<Iteration>{all.back()};
  }
  if (!*range) {
    const std::vector<Iteration> training = training_iterations(trace);
    chosen.insert(training.begin() + (training.size() > 1 ? 1 : 0), training.end());
    return chosen;
  }
  for (const Iteration iteration : trace.iterations()) {
    if (iteration >= (*range)->first && iteration <= (*range)->second) {
      chosen.insert(iteration);
    }
  }
  return chosen.empty() ? failure(fmt::format("--iteration {}: {} has none of these", request.iterations,
                                              shown_name(request.input.front())))
                        : Result<std::set<Iteration>>(std::move(chosen));
}

std::string iterations_text(const std::set<Iteration>& chosen) {
  return chosen.empty()       ? std::string("all calls")
         : chosen.size() == 1 ? fmt::format("iteration {}", *chosen.begin())
                              : fmt::format("iterations {}-{}", *chosen.begin(), *chosen.rbegin());
}

Result<ModelMessages> recorded_messages(const MessagesRequest& request) {
  const std::string& name = request.input.front();
  if (request.input.size() > 1) {
    return failure(
        fmt::format("{} is a trace; messages come from one trace, or from one configuration", name));
  }
  if (!request.framework.empty() || !(request.overrides == Overrides{})) {
    return failure(
        fmt::format("{} is a trace: --framework and the layout flags are for configurations; leave them out",
                    shown_name(name)));
  }
  return open_trace(request.events, name).and_then([&](const Trace& trace) {
    warn_of_lost_calls(request.events, name, trace);
    return chosen_iterations(request, trace).and_then([&](const std::set<Iteration>& iterations) {
      ModelMessages found;
      found.source = shown_name(name);
      found.chosen = iterations_text(iterations);
      found.job_ranks = ranks_of_job(trace);
      MessageCollector(trace, iterations, request.with_callers, found).collect();
      return checked_messages(std::move(found));
    });
  });
}

}  // namespace

double job_calls(const ModelMessage& message, const std::vector<std::int64_t>& ranks_of_class) {
  double calls = 0;
  for (std::size_t at = 0; at < message.calls_of_class.size(); ++at) {
    calls += message.calls_of_class[at] * static_cast<double>(ranks_of_class[at]);
  }
  return calls;
}

Result<ModelMessages> model_messages(const MessagesRequest& request) {
  if (request.input.empty()) {
    return failure("no messages are given; name a configuration, a model such as 1.3B, or a trace");
  }
  if (names_trace(request.input.front())) {
    return recorded_messages(request);
  }
  return request.iterations.empty()
             ? predicted_messages(request)
             : failure("--iteration chooses iterations of a trace; a configuration has its steady one");
}

}  // namespace commlens
