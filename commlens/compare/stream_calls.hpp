#pragma once
#include <map>
#include <vector>

#include "commlens/compare/compare.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// The calls of a stream in one iteration, without barriers and ignored ops.
struct IterationCalls {
  std::vector<OpId> sequence;                         // issue order
  std::vector<std::pair<OpId, std::int64_t>> counts;  // each op once, in order of first use
  std::int64_t ignored = 0;
};

/// The calls of a stream per requested iteration. Streams are requested in rank order, so only one is cached.
class StreamCalls {
 public:
  StreamCalls(const Trace& trace, const CompareOptions& options, const std::vector<Iteration>& iterations)
      : trace_(trace), options_(options), wanted_(iterations) {}

  /// Empty calls if the stream has none in that iteration; valid until another stream is requested.
  const IterationCalls& at(const RankStream& stream, Iteration iteration);

 private:
  void load(const RankStream& stream);

  const Trace& trace_;
  const CompareOptions& options_;
  const std::vector<Iteration>& wanted_;
  const RankStream* loaded_ = nullptr;
  std::map<Iteration, IterationCalls> calls_;
};

/// True for barriers, for calls of Match::random and for the kinds that the user excludes.
bool is_ignored(const CommOp& op, const CompareOptions& options);

}  // namespace commlens
