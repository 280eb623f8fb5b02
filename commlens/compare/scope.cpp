#include "commlens/compare/scope.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace commlens {
namespace {

std::vector<const RankStream*> ascending(const Trace& trace) {
  std::vector<const RankStream*> streams;
  for (const RankStream& stream : trace.streams) {
    streams.push_back(&stream);
  }
  std::stable_sort(streams.begin(), streams.end(), [](const RankStream* left, const RankStream* right) {
    return left->ranks.first < right->ranks.first;
  });
  return streams;
}

bool is_gapless(const std::vector<const RankStream*>& streams) {
  return std::all_of(streams.begin(), streams.end(),
                     [](const RankStream* stream) { return stream->ranks.is_gapless(); });
}

/// Ranks of streams that need not be adjacent.
std::vector<Segment> common_segments_of_blocks(const std::vector<const RankStream*>& left,
                                               const std::vector<const RankStream*>& right) {
  std::vector<Segment> segments;
  for (const RankStream* a : left) {
    for (const RankStream* b : right) {
      for (const RankRange& both : intersection(a->ranks, b->ranks)) {
        segments.push_back({both, a, b});
      }
    }
  }
  std::stable_sort(segments.begin(), segments.end(),
                   [](const Segment& one, const Segment& other) { return one.ranks < other.ranks; });
  return segments;
}

std::vector<Segment> common_segments(const Trace& a, const Trace& b) {
  const std::vector<const RankStream*> left = ascending(a);
  const std::vector<const RankStream*> right = ascending(b);
  if (!is_gapless(left) || !is_gapless(right)) {
    return common_segments_of_blocks(left, right);
  }
  std::vector<Segment> segments;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < left.size() && j < right.size()) {
    const RankRange both{std::max(left[i]->ranks.first, right[j]->ranks.first),
                         std::min(left[i]->ranks.last, right[j]->ranks.last)};
    if (both.first <= both.last) {
      segments.push_back({both, left[i], right[j]});
    }
    ++(left[i]->ranks.last < right[j]->ranks.last ? i : j);
  }
  return segments;
}

std::int64_t rank_count(const Trace& trace) {
  std::int64_t count = 0;
  for (const RankStream& stream : trace.streams) {
    count += stream.ranks.count();
  }
  return count;
}

std::vector<Iteration> wanted_iterations(const Trace& trace, const CompareOptions& options) {
  std::vector<Iteration> iterations = trace.iterations();
  if (options.iterations) {
    const Iteration first = options.iterations->first;
    const Iteration last = options.iterations->second;
    std::erase_if(iterations, [=](Iteration iteration) { return iteration < first || iteration > last; });
  }
  return iterations;
}

std::string ranks_text(const Trace& trace) {
  if (trace.streams.empty()) {
    return "no ranks";
  }
  const std::vector<const RankStream*> streams = ascending(trace);
  return fmt::format("ranks {} to {}", streams.front()->ranks.first.value, trace.ranks() - 1);
}

}  // namespace

bool is_silent(const Trace& trace) {
  return std::all_of(trace.streams.begin(), trace.streams.end(),
                     [](const RankStream& stream) { return stream.events.empty(); });
}

std::string to_text(const std::vector<Iteration>& iterations) {
  if (iterations.empty()) {
    return "none";
  }
  if (iterations.front() == iterations.back()) {
    return fmt::format("{}", iterations.front());
  }
  const bool gapless =
      static_cast<std::size_t>(iterations.back() - iterations.front()) + 1 == iterations.size();
  return gapless ? fmt::format("{} to {}", iterations.front(), iterations.back())
                 : fmt::format("{}", fmt::join(iterations, ", "));
}

Result<Scope> common_ranks(const Trace& a, const Trace& b) {
  Scope scope;
  scope.segments = common_segments(a, b);
  for (const Segment& segment : scope.segments) {
    scope.ranks += segment.ranks.count();
  }
  if (scope.ranks == 0) {
    return failure(fmt::format("no rank is in both: A has {}, B has {}; compare traces of the same job",
                               ranks_text(a), ranks_text(b)));
  }
  scope.ranks_only_a = rank_count(a) - scope.ranks;
  scope.ranks_only_b = rank_count(b) - scope.ranks;
  return scope;
}

Result<Scope> common_scope(const Trace& a, const Trace& b, const CompareOptions& options) {
  Result<Scope> ranks = common_ranks(a, b);
  if (!ranks) {
    return ranks;
  }
  Scope& scope = *ranks;
  if (a.iterations().empty() && b.iterations().empty()) {
    scope.iterations = {k_unknown_iteration};
    return ranks;
  }
  const std::vector<Iteration> left = wanted_iterations(is_silent(a) ? b : a, options);
  const std::vector<Iteration> right = wanted_iterations(is_silent(b) ? a : b, options);
  std::set_intersection(left.begin(), left.end(), right.begin(), right.end(),
                        std::back_inserter(scope.iterations));
  std::set_difference(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(scope.only_a));
  std::set_difference(right.begin(), right.end(), left.begin(), left.end(), std::back_inserter(scope.only_b));
  const bool a_says = !a.iterations().empty();
  if (a_says != !b.iterations().empty() && !is_silent(a) && !is_silent(b)) {
    return failure(
        fmt::format("{} does not say which iteration a call is of, {} does; name a trace that does",
                    a_says ? "B" : "A", a_says ? "A" : "B"));
  }
  if (scope.iterations.empty()) {
    return failure(fmt::format("no requested iteration is in both: A has {}, B has {}; change --iteration",
                               to_text(a.iterations()), to_text(b.iterations())));
  }
  return ranks;
}

}  // namespace commlens
