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

/// The calls of a stream per wanted iteration. Streams are asked for in rank order, so one is kept.
class StreamCalls {
 public:
  StreamCalls(const Trace& trace, const CompareOptions& options, const std::vector<Iteration>& iterations)
      : trace_(trace), options_(options), wanted_(iterations) {}

  /// Empty calls when the stream has none in that iteration; valid until another stream is asked for.
  const IterationCalls& at(const RankStream& stream, Iteration iteration);

 private:
  void load(const RankStream& stream);

  const Trace& trace_;
  const CompareOptions& options_;
  const std::vector<Iteration>& wanted_;
  const RankStream* loaded_ = nullptr;
  std::map<Iteration, IterationCalls> calls_;
};

/// True for barriers and for the kinds the user wants skipped.
bool is_ignored(const CommOp& op, const CompareOptions& options);

}  // namespace commlens
