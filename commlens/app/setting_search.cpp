#include "commlens/app/setting_search.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/compare/scope.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/variations.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_most_guesses = 3;
constexpr std::int64_t k_most_calls = 200'000;  // of both sides; some 100 comparisons of them take seconds
constexpr std::int64_t k_least_share = 10;      // a guess explains at least one in so many differing calls
constexpr std::int64_t k_most_left = 10;        // and all together leave at most one in so many

std::int64_t differing(const Comparison& comparison) {
  return comparison.size + comparison.missing + comparison.extra;
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
  Job job;
  Trace trace;
};
std::optional<Best> best_change(const Job& job, const Trace& other, std::int64_t left,
                                const CompareOptions& options, const std::vector<Iteration>& iterations) {
  std::optional<Best> best;
  std::int64_t least = left - std::max<std::int64_t>(1, ceil_div(left, k_least_share)) + 1;
  for (SettingChange& change : setting_changes(job, reduced_sizes(other))) {
    const Result<Plan> plan = make_plan(change.job);
    if (!plan) {
      continue;
    }
    Trace trace = plan->trace_of(iterations);
    const Result<Comparison> compared = compare(trace, other, options);
    if (compared && differing(*compared) < least) {
      least = differing(*compared);
      best = Best{{std::move(change.setting), std::move(change.value), left - least, least},
                  std::move(change.job),
                  std::move(trace)};
    }
  }
  return best;
}

}  // namespace

SettingSearch search_settings(const Job& job, const Trace& predicted, const Trace& other,
                              const CompareOptions& options) {
  SettingSearch search;
  const Result<Comparison> start = compare(predicted, other, options);
  const Result<Scope> scope = common_scope(predicted, other, options);
  if (!start || !scope || start->equal()) {
    return search;
  }
  search.differing = differing(*start);
  if (start->calls_a + start->calls_b > k_most_calls) {
    search.skipped =
        fmt::format("no other settings were tried: {} calls are too many", with_commas(start->calls_a));
    return search;
  }
  if (predicted.ranks() != other.ranks()) {
    search.skipped = fmt::format("no other settings were tried: one side has {} ranks, the other {}",
                                 with_commas(predicted.ranks()), with_commas(other.ranks()));
    return search;
  }
  Job changing = job;
  std::int64_t left = search.differing;
  while (left > 0 && search.guesses.size() < k_most_guesses) {
    std::optional<Best> best = best_change(changing, other, left, options, scope->iterations);
    if (!best) {
      break;
    }
    left = best->guess.remaining;
    changing = std::move(best->job);
    search.closest = std::move(best->trace);
    search.guesses.push_back(std::move(best->guess));
  }
  if (left * k_most_left > search.differing) {
    search.guesses.clear();
    search.closest = Trace();
  }
  return search;
}

std::string search_text(const SettingSearch& search, std::string_view side) {
  if (!search.skipped.empty()) {
    return search.skipped + "\n";
  }
  std::string text;
  for (std::size_t at = 0; at < search.guesses.size(); ++at) {
    const SettingGuess& guess = search.guesses[at];
    const std::int64_t before = guess.explained + guess.remaining;
    text += at == 0 ? fmt::format("{} looks as if {} were {}", side, guess.setting, guess.value)
                    : fmt::format("  and {} {}", guess.setting, guess.value);
    text += fmt::format(": explains {} of {} {}differing calls\n", with_commas(guess.explained),
                        with_commas(before), at == 0 ? "" : "remaining ");
  }
  return text;
}

}  // namespace commlens
