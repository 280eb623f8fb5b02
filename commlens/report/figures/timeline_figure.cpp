#include "commlens/report/figures/timeline_figure.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "commlens/comm/volume.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/summary/overlap.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_most_ranks = 64;
constexpr std::size_t k_most_events = 120'000;  // about 1.5 MB of the page

/// One bar of the timeline. `call` is absent for compute.
struct Bar {
  std::int64_t rank = 0;
  Iteration iteration = 0;
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  const CommOp* call = nullptr;
};

/// Which ranks and iterations are drawn.
struct Choice {
  std::vector<const RankStream*> streams;
  std::vector<Iteration> iterations;
  std::size_t streams_with_times = 0;
};

std::size_t bars_in(const Choice& choice, Iteration iteration) {
  const auto is_of_it = [&](const auto& item) { return item.iteration == iteration; };
  std::int64_t bars = 0;
  for (const RankStream* stream : choice.streams) {
    bars += std::count_if(stream->events.begin(), stream->events.end(), is_of_it) +
            std::count_if(stream->compute.begin(), stream->compute.end(), is_of_it);
  }
  return static_cast<std::size_t>(bars);
}

/// At most `most` of the streams with times, evenly spaced.
std::vector<const RankStream*> spread(const std::vector<const RankStream*>& streams, std::size_t most) {
  if (streams.size() <= most) {
    return streams;
  }
  std::vector<const RankStream*> chosen;
  for (std::size_t at = 0; at < most; ++at) {
    chosen.push_back(streams[at * streams.size() / most]);
  }
  return chosen;
}

/// The last iteration (steady), then the first ones (cold), then from the end backwards.
std::vector<Iteration> by_interest(const std::vector<Iteration>& iterations) {
  std::vector<Iteration> order;
  std::set<Iteration> seen;
  const auto take = [&](Iteration iteration) {
    if (seen.insert(iteration).second) {
      order.push_back(iteration);
    }
  };
  take(iterations.back());
  for (const Iteration iteration : iterations) {
    if (iteration >= 0) {
      take(iteration);
      break;
    }
  }
  std::for_each(iterations.rbegin(), iterations.rend(), take);
  return order;
}

/// Iterations of the calls or, without calls, of the computing.
std::vector<Iteration> known_iterations(const FigureInput& input) {
  if (input.summary.calls > 0) {
    return input.summary.iterations.list();
  }
  std::set<Iteration> found;
  for (const RankStream& stream : input.trace().streams) {
    for (const ComputeInterval& computed : stream.compute) {
      found.insert(computed.iteration);
    }
  }
  found.erase(k_unknown_iteration);
  return {found.begin(), found.end()};
}

Choice choice_of(const FigureInput& input) {
  std::vector<const RankStream*> timed;
  for (const RankStream& stream : input.trace().streams) {
    if (is_timed(stream)) {
      timed.push_back(&stream);
    }
  }
  Choice choice{spread(timed, k_most_ranks), {}, timed.size()};
  std::vector<Iteration> iterations = known_iterations(input);
  if (iterations.empty()) {
    iterations = {k_unknown_iteration};
  }
  iterations = by_interest(iterations);
  while (choice.streams.size() > 1 && bars_in(choice, iterations.front()) > k_most_events) {
    choice.streams = spread(choice.streams, choice.streams.size() / 2);
  }
  std::size_t room = k_most_events;
  for (const Iteration iteration : iterations) {
    const std::size_t bars = bars_in(choice, iteration);
    if (!choice.iterations.empty() && bars > room) {
      break;
    }
    choice.iterations.push_back(iteration);
    room -= std::min(room, bars);
  }
  std::sort(choice.iterations.begin(), choice.iterations.end());
  return choice;
}

/// A bar from `started` to `finished`; foreign times may be anything.
Bar bar_of(const RankStream& stream, Iteration iteration, const Interval& when, const CommOp* call) {
  const std::int64_t start = held(when.started).count();
  return {stream.ranks.first.value, iteration, start,
          std::max<std::int64_t>(held(when.finished).count() - start, 0), call};
}

/// The calls and computing of a stream in the chosen iterations.
void add_bars(const Trace& trace, const RankStream& stream, const Choice& choice, std::vector<Bar>& bars) {
  const auto is_chosen = [&](Iteration iteration) {
    return std::binary_search(choice.iterations.begin(), choice.iterations.end(), iteration);
  };
  for (std::size_t row = 0; row < stream.events.size(); ++row) {
    const CommEvent& event = stream.events[row];
    const Times& times = stream.times[row];
    if (is_chosen(event.iteration)) {
      bars.push_back(bar_of(stream, event.iteration, {times.started, times.finished}, &trace.op(event.op)));
    }
  }
  for (const ComputeInterval& computed : stream.compute) {
    if (is_chosen(computed.iteration)) {
      bars.push_back(bar_of(stream, computed.iteration, {computed.started, computed.finished}, nullptr));
    }
  }
}

/// Calls and computing of the shown ranks whose iteration is unknown: "…: 8 of 10 calls, 1 of 3 compute
/// intervals".
std::string skipped_text(const Choice& choice) {
  std::string text;
  const auto add = [&](const auto& items_of, const char* what) {
    std::int64_t skipped = 0;
    std::int64_t all = 0;
    for (const RankStream* const stream : choice.streams) {
      const auto& items = items_of(*stream);
      all += std::ssize(items);
      skipped += std::count_if(items.begin(), items.end(),
                               [](const auto& item) { return item.iteration == k_unknown_iteration; });
    }
    if (skipped > 0) {
      text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", with_commas(skipped), counted(all, what));
    }
  };
  add([](const RankStream& stream) -> const auto& { return stream.events; }, "calls");
  add([](const RankStream& stream) -> const auto& { return stream.compute; }, "compute intervals");
  return fmt::format("Skipped, iteration unknown: {}.", text);
}

/// The longest bars, when there are more than fit.
void keep_longest(std::vector<Bar>& bars) {
  if (bars.size() <= k_most_events) {
    return;
  }
  std::nth_element(bars.begin(), bars.begin() + k_most_events, bars.end(),
                   [](const Bar& a, const Bar& b) { return a.duration_ns > b.duration_ns; });
  bars.resize(k_most_events);
}

/// Names of the bars' groups; empty unless a bar belongs to a second communicator of the same ranks.
std::optional<FigureColumn> groups_of(const Trace& trace, const std::vector<Bar>& bars) {
  const auto is_second = [&](const Bar& bar) {
    return bar.call != nullptr && trace.groups.ordinal(bar.call->group) > 1;
  };
  if (std::none_of(bars.begin(), bars.end(), is_second)) {
    return std::nullopt;
  }
  FigureColumn group = text_column("group_text", "group");
  for (const Bar& bar : bars) {
    texts(group).add(bar.call == nullptr ? "" : group_text(trace, *bar.call));
  }
  return group;
}

Figure figure_of(const Trace& trace, const std::vector<Bar>& bars) {
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const Bar& bar : bars) {
    origin = std::min(origin, bar.start_ns);
  }
  FigureColumn rank = whole_column("rank", "rank");
  FigureColumn iteration = whole_column("iteration", "iteration");
  FigureColumn start = whole_column("start_ns", "start", "ns");
  FigureColumn duration = whole_column("duration_ns", "duration", "ns");
  FigureColumn op = text_column("op", "op");
  FigureColumn axis = text_column("axis", "axis");
  FigureColumn bytes = whole_column("message_bytes", "message bytes", "bytes");
  FigureColumn kind = text_column("kind", "kind");
  start.ascending = true;
  for (const Bar& bar : bars) {
    wholes(rank).push_back(bar.rank);
    wholes(iteration).push_back(bar.iteration == k_unknown_iteration ? k_no_value : bar.iteration);
    wholes(start).push_back(bar.start_ns - origin);
    wholes(duration).push_back(bar.duration_ns);
    texts(op).add(bar.call == nullptr ? "compute" : op_text(trace, bar.call->kind, bar.call->name));
    texts(axis).add(bar.call == nullptr ? "" : name_of(trace.groups.axis(bar.call->group)));
    wholes(bytes).push_back(bar.call == nullptr ? 0 : message_bytes(*bar.call).value);
    texts(kind).add(bar.call == nullptr ? "compute" : "comm");
  }
  Figure figure;
  figure.kind = FigureKind::timeline;
  figure.caption =
      "When each rank was in a communication call (from its start to its end) and when it computed. Times "
      "count "
      "from the first one shown and are read on each rank's own clock: between machines they are as good as "
      "their wall clocks agree.";
  figure.columns = {std::move(rank), std::move(iteration), std::move(start), std::move(duration),
                    std::move(op),   std::move(axis),      std::move(bytes), std::move(kind)};
  if (std::optional<FigureColumn> group = groups_of(trace, bars)) {
    figure.columns.push_back(std::move(*group));
  }
  return figure;
}

}  // namespace

FigureResult timeline_figure(const FigureInput& input) {
  const Trace& trace = input.trace();
  if (!has_times(trace)) {
    return no_figure(no_times_reason(trace));
  }
  const Choice choice = choice_of(input);
  std::vector<Bar> bars;
  for (const RankStream* stream : choice.streams) {
    add_bars(trace, *stream, choice, bars);
  }
  const std::size_t all_bars = bars.size();
  keep_longest(bars);
  if (bars.empty()) {
    return no_figure("no call of the iterations shown has a time");
  }
  std::sort(bars.begin(), bars.end(), [](const Bar& a, const Bar& b) {
    return std::tuple(a.rank, a.start_ns, a.duration_ns) < std::tuple(b.rank, b.start_ns, b.duration_ns);
  });
  Figure figure = figure_of(trace, bars);
  std::vector<std::int64_t> ranks;
  for (const RankStream* stream : choice.streams) {
    ranks.push_back(stream->ranks.first.value);
  }
  std::vector<std::int64_t> iterations;
  for (const Iteration iteration : choice.iterations) {
    if (iteration != k_unknown_iteration) {
      iterations.push_back(iteration);
    }
  }
  figure.options = {{"iterations", iterations}, {"ranks", ranks}};
  if (choice.streams.size() < choice.streams_with_times) {
    figure.notes.push_back(fmt::format("{} of {} ranks are shown, evenly spread.", choice.streams.size(),
                                       with_commas(static_cast<std::int64_t>(choice.streams_with_times))));
  }
  const std::size_t shown = std::max<std::size_t>(known_iterations(input).size(), 1);
  if (choice.iterations.size() < shown) {
    figure.notes.push_back(
        fmt::format("{} of {} iterations are shown, so that the page stays small; choose others "
                    "with --iteration.",
                    choice.iterations.size(), with_commas(static_cast<std::int64_t>(shown))));
  }
  if (!iterations.empty() && bars_in(choice, k_unknown_iteration) > 0) {
    figure.notes.push_back(skipped_text(choice));
  }
  if (bars.size() < all_bars) {
    figure.notes.push_back(fmt::format("The {} longest of {} intervals are shown.",
                                       with_commas(static_cast<std::int64_t>(bars.size())),
                                       with_commas(static_cast<std::int64_t>(all_bars))));
  }
  return figure;
}

}  // namespace commlens
