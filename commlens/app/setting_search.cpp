#include "commlens/app/setting_search.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "commlens/app/trace_source.hpp"
#include "commlens/base/units.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/variations.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_most_guesses = 3;
constexpr std::int64_t k_most_calls = 200'000;  // of both sides; some 100 comparisons of them take seconds
constexpr std::int64_t k_least_share = 10;      // a guess explains at least one in so many differing calls
constexpr std::int64_t k_most_left = 10;        // and all together leave at most one in so many

constexpr std::size_t k_ways = 4;  // of DifferIn

/// How far apart two sides are, by DifferIn.
using Distance = std::array<std::int64_t, k_ways>;

/// Of a prediction, the first side, and a trace.
Distance distance(const Comparison& comparison) {
  return {comparison.size + comparison.missing + comparison.extra, comparison.other_reduce_op(),
          comparison.order_differs, static_cast<std::int64_t>(comparison.only_b.size())};
}

/// The first thing that differs.
std::optional<std::size_t> first_way(const Distance& distance) {
  const auto* const found =
      std::find_if(distance.begin(), distance.end(), [](std::int64_t part) { return part > 0; });
  return found == distance.end() ? std::nullopt
                                 : std::optional(static_cast<std::size_t>(found - distance.begin()));
}

/// The largest reductions of the trace, in elements: a bucket limit may equal one of them.
std::vector<std::int64_t> reduced_sizes(const Trace& trace) {
  constexpr std::size_t most = 3;
  std::set<std::int64_t, std::greater<>> sizes;
  for (const CommOp& op : trace.ops()) {
    if (op.kind == CommKind::all_reduce || op.kind == CommKind::reduce ||
        op.kind == CommKind::reduce_scatter) {
      sizes.insert(op.input.value);
    }
  }
  std::vector<std::int64_t> largest(sizes.begin(), sizes.end());
  largest.resize(std::min(largest.size(), most));
  std::erase_if(largest, [](std::int64_t size) { return size < 1; });
  return largest;
}

/// The best single change, or none that explains enough.
struct Best {
  SettingGuess guess;
  Distance distance;
  Job job;
  Trace trace;
};
struct Start {
  const Distance& now;
  std::size_t way;  // to come closer in
};
std::optional<Best> best_change(const Job& job, const Trace& other, Start start,
                                const CompareOptions& options, const std::vector<Iteration>& iterations) {
  const auto& [now, way] = start;
  std::optional<Best> best;
  const std::int64_t left = now.at(way);
  const std::int64_t most = left - std::max<std::int64_t>(1, ceil_div(left, k_least_share));
  Distance least = now;
  for (SettingChange& change : setting_changes(job, reduced_sizes(other))) {
    const Result<Plan> plan = make_plan(change.job);
    if (!plan) {
      continue;
    }
    Trace trace = plan->trace_of(iterations);
    const Result<Comparison> compared = compare(trace, other, options);
    const Distance then = compared ? distance(*compared) : now;
    if (then.at(way) <= most && then < least) {
      least = then;
      best = Best{{std::move(change.setting), std::move(change.value), left - then.at(way), then.at(way)},
                  then,
                  std::move(change.job),
                  std::move(trace)};
    }
  }
  return best;
}

/// A recording of a big job may hold a few ranks of it.
void keep_ranks_of(const Trace& other, Trace& trace) {
  std::vector<RankStream> kept;
  for (const RankStream& stream : trace.streams) {
    for (const RankStream& theirs : other.streams) {
      for (const RankRange& ranks : intersection(stream.ranks, theirs.ranks)) {
        kept.push_back(stream);
        kept.back().ranks = ranks;
      }
    }
  }
  std::sort(kept.begin(), kept.end(),
            [](const RankStream& a, const RankStream& b) { return a.ranks < b.ranks; });
  trace.streams = std::move(kept);
}

}  // namespace

SettingSearch search_settings(const Job& job, const Trace& predicted, const Trace& other,
                              const CompareOptions& options) {
  SettingSearch search;
  const Result<Comparison> start = compare(predicted, other, options);
  const std::optional<std::size_t> way = start ? first_way(distance(*start)) : std::nullopt;
  if (!way) {
    return search;
  }
  Distance now = distance(*start);
  search.in = static_cast<DifferIn>(*way);
  search.differing = now.at(*way);
  if (start->calls_a + start->calls_b > k_most_calls) {
    search.skipped =
        fmt::format("no other settings were tried: {} calls are too many", with_commas(start->calls_a));
    return search;
  }
  // Of a recording the last ranks may be missing; groups have them.
  if (const std::int64_t ranks = ranks_of_job(other); predicted.ranks() != ranks) {
    search.skipped = fmt::format("no other settings were tried: one side has {} ranks, the other {}",
                                 with_commas(predicted.ranks()), with_commas(ranks));
    return search;
  }
  std::vector<Iteration> iterations = start->iterations;
  iterations.insert(iterations.begin(), start->only_b.begin(), start->only_b.end());
  Job changing = job;
  while (now.at(*way) > 0 && search.guesses.size() < k_most_guesses) {
    std::optional<Best> best = best_change(changing, other, {now, *way}, options, iterations);
    if (!best) {
      break;
    }
    now = best->distance;
    changing = std::move(best->job);
    search.closest = std::move(best->trace);
    search.guesses.push_back(std::move(best->guess));
  }
  if (start->ranks_only_a > 0) {
    keep_ranks_of(other, search.closest);
  }
  if (now.at(*way) * k_most_left > search.differing) {
    search.guesses.clear();
    search.closest = Trace();
  }
  return search;
}

namespace {

/// "12 of 12 differing calls", "the order of 3 of 3 sequences".
std::string explained_text(DifferIn in, std::string_view explained, std::string_view of, bool is_first) {
  const std::string_view left = is_first ? "" : "remaining ";
  switch (in) {
    case DifferIn::calls:
      return fmt::format("{} of {} {}differing calls", explained, of, left);
    case DifferIn::reduce_ops:
      return fmt::format("{} of {} {}calls with another reduce op", explained, of, left);
    case DifferIn::order:
      return fmt::format("{} of {} {}sequences in another order", explained, of, left);
    case DifferIn::initialisation:
      return "the calls before the first iteration";
  }
  return "";
}

}  // namespace

std::string search_text(const SettingSearch& search, std::string_view side) {
  if (!search.skipped.empty()) {
    return search.in == DifferIn::calls ? search.skipped + "\n" : "";
  }
  std::string text;
  for (std::size_t at = 0; at < search.guesses.size(); ++at) {
    const SettingGuess& guess = search.guesses[at];
    text += at == 0 ? fmt::format("{} looks as if {} were {}", side, guess.setting, guess.value)
                    : fmt::format("  and {} {}", guess.setting, guess.value);
    text += fmt::format(": explains {}\n",
                        explained_text(search.in, with_commas(guess.explained),
                                       with_commas(guess.explained + guess.remaining), at == 0));
  }
  return text;
}

}  // namespace commlens
