#include "commlens/summary/stragglers.hpp"

#include <algorithm>

#include "commlens/base/sums.hpp"
#include "commlens/summary/arrivals.hpp"
#include "commlens/summary/rank_matching.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

constexpr std::size_t k_most_at_a_time = 1024;               // calls that are read of one rank …
constexpr std::size_t k_most_of_all = std::size_t{1} << 17;  // … and of all, before others are looked at
constexpr std::int64_t k_most_held = std::int64_t{1} << 20;  // calls that wait for those of other ranks

/// Reads the ranks in parallel: a rank with many unmatched calls is paused until the others have caught up.
class SideBySide {
 public:
  SideBySide(const CallSource& source, RankMatching& matching, std::vector<RankCalls>& ranks)
      : source_(source),
        matching_(matching),
        ranks_(ranks),
        at_a_time_(std::clamp<std::size_t>(k_most_of_all / std::max<std::size_t>(ranks.size(), 1), 16,
                                           k_most_at_a_time)) {}

  void read() {
    std::size_t left = ranks_.size();
    while (left > 0) {
      const std::int64_t limit = std::max(least_held(), static_cast<std::int64_t>(2 * at_a_time_));
      for (RankCalls& rank : ranks_) {
        if (rank.has_ended || rank.held > limit) {
          continue;
        }
        left -= advance(rank) ? 0U : 1U;
      }
      matching_.limit_held(k_most_held);
    }
  }

 private:
  std::int64_t least_held() const {
    std::int64_t least = INT64_MAX;
    for (const RankCalls& rank : ranks_) {
      least = rank.has_ended ? least : std::min(least, rank.held);
    }
    return least;
  }

  /// Reads some calls of a rank; false at its end.
  bool advance(RankCalls& rank) {
    const CallSpan calls = source_.calls(rank.cursor, at_a_time_);
    if (calls.events.empty()) {
      matching_.end(rank);
      return false;
    }
    matching_.add(rank, calls);
    return true;
  }

  const CallSource& source_;
  RankMatching& matching_;
  std::vector<RankCalls>& ranks_;
  std::size_t at_a_time_;
};

/// The ranks whose calls have times of their own, ascending.
std::vector<RankCalls> timed_ranks(const CallSource& source) {
  std::vector<RankCalls> ranks;
  const std::vector<RankStream>& streams = source.tables.streams;
  for (std::size_t row = 0; row < streams.size(); ++row) {
    if (source.has_times[row] && streams[row].ranks.count() == 1) {
      ranks.emplace_back(streams[row].ranks.first, row);
    }
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const RankCalls& a, const RankCalls& b) { return a.rank < b.rank; });
  return ranks;
}

/// Counts the calls of the streams that cannot be matched, of all their ranks.
void count_unmatched(const CallSource& source, const StragglerOptions& options, Stragglers& result) {
  const TimeSelection selection{options.iterations, {}};
  for (std::size_t row = 0; row < source.has_times.size(); ++row) {
    const std::int64_t ranks = source.tables.streams[row].ranks.count();
    StreamCursor cursor{row};
    std::int64_t& count = source.has_times[row] ? result.of_several_ranks : result.without_times;
    while (!source.has_times[row] || ranks > 1) {
      const CallSpan calls = source.calls(cursor, k_most_at_a_time);
      if (calls.events.empty()) {
        break;
      }
      const std::int64_t selected =
          std::count_if(calls.events.begin(), calls.events.end(),
                        [&](const CommEvent& event) { return selects(selection, event.iteration); });
      count = saturating_sum(count, saturating_product(ranks, selected));
    }
  }
}

std::optional<nanoseconds> clock_error(const Provenance& provenance, const IterationFacts& facts) {
  if (!provenance.recorder || facts.first_issued > facts.last_finished) {
    return std::nullopt;
  }
  constexpr double billion = 1e9;
  const auto ppb = static_cast<double>(provenance.recorder->clock_error_ppb);
  const nanoseconds length = held(facts.last_finished) - held(facts.first_issued);
  const double error = 2 * ppb * static_cast<double>(length.count()) / billion;
  return held(nanoseconds(static_cast<std::int64_t>(std::min(error, 2e18))));
}

}  // namespace

nanoseconds Lateness::mean_caused() const { return last > 0 ? caused / last : nanoseconds(0); }

Stragglers stragglers(const CallSource& source, const IterationFacts& iterations,
                      const StragglerOptions& options) {
  std::vector<RankCalls> ranks = timed_ranks(source);
  RankMatching matching(source, iterations, options, ranks);
  SideBySide(source, matching, ranks).read();
  Stragglers result = matching.finish();
  count_unmatched(source, options, result);
  result.clock_error = clock_error(source.tables.provenance, iterations);
  return result;
}

Stragglers stragglers(const Trace& trace, const StragglerOptions& options) {
  IterationSurvey survey;
  visit_calls(trace, [&](const CallBlock& block) { survey.add(block); });
  return stragglers(call_source(trace), survey.facts(), options);
}

}  // namespace commlens
