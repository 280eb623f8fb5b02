#pragma once
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Ranks that belong to one stream in each of two traces.
struct Segment {
  RankRange ranks;
  const RankStream* a = nullptr;
  const RankStream* b = nullptr;
};

/// The scope of a comparison: the ranks and iterations that both traces have.
struct Scope {
  std::vector<Segment> segments;      // ascending
  std::vector<Iteration> iterations;  // only k_unknown_iteration if neither trace has iterations
  std::vector<Iteration> only_a;
  std::vector<Iteration> only_b;
  std::int64_t ranks = 0;
  std::int64_t ranks_only_a = 0;
  std::int64_t ranks_only_b = 0;
};

/// The ranks of both, without iterations. Fails if no rank is in both; the error lists those of each trace.
Result<Scope> common_ranks(const Trace& a, const Trace& b);

/// Ranks that make no call at all have none in any iteration. Fails if no rank or no requested iteration is
/// in both; the error lists those of each trace.
Result<Scope> common_scope(const Trace& a, const Trace& b, const CompareOptions& options);

/// A trace whose ranks make no call at all has none in any iteration of the other one.
bool is_silent(const Trace& trace);

/// "-1 to 2", or "none": a list of iterations for people.
std::string to_text(const std::vector<Iteration>& iterations);

}  // namespace commlens
