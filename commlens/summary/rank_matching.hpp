#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "commlens/summary/arrivals.hpp"
#include "commlens/summary/call_routes.hpp"
#include "commlens/summary/iteration_facts.hpp"
#include "commlens/summary/rank_time.hpp"
#include "commlens/summary/slow_ranks.hpp"
#include "commlens/summary/stragglers.hpp"
#include "commlens/trace/call_source.hpp"

namespace commlens {

/// Numbers of ops that a rank uses, few of those of the trace: a hash table with linear probing.
class OpRows {
 public:
  /// The number of an op, or a new one, the number of ops before it.
  std::pair<std::uint32_t, bool> row_of(OpId op);

 private:
  void grow();
  struct Slot {
    std::uint32_t op = 0;  // + 1; 0: free
    std::uint32_t row = 0;
  };
  std::size_t place_of(std::uint32_t op) const;
  std::vector<Slot> slots_ = std::vector<Slot>(16);
  std::uint32_t rows_ = 0;
};

/// One rank while its calls are read.
struct RankCalls {
  RankCalls(Rank which, std::size_t stream) : rank(which), cursor{stream} {}

  /// The calls of one op.
  struct Route {
    CallRoute call;
    Iteration iteration = 0;             // of `arrivals`, where iterations come in any order
    ArrivalChannel* arrivals = nullptr;  // of matched calls
    std::uint32_t strand = 0;            // index in `strands`, k_no_strand of other calls
    std::uint64_t signature = 0;
  };

  Rank rank;
  StreamCursor cursor;
  std::int64_t held = 0;  // of its calls, those that wait for others'
  bool has_ended = false;
  RankLateness lateness{.rank = rank, .collectives = {}, .messages = {}};
  OpRows ops;
  std::vector<Route> routes;
  RankTime time;
  std::vector<GroupStrand> strands;
  std::vector<std::pair<BlockComparison*, std::size_t>> comparisons;  // it is a member of, and which
  std::vector<std::pair<ArrivalChannel*, std::size_t>> channels;      // the same
  RankWork work;
  bool has_mark = false;
  RankTime::Totals mark;
};

/// Matches the calls of ranks while they are read, in any order of the ranks.
class RankMatching {
 public:
  /// The arguments must outlive it. `ranks` ascend and have stable addresses.
  RankMatching(const CallSource& source, const IterationFacts& iterations, const StragglerOptions& options,
               std::vector<RankCalls>& ranks);

  void add(RankCalls& rank, const CallSpan& calls);
  /// Ends a rank, which has no more calls.
  void end(RankCalls& rank);
  /// Drops the groups with most waiting calls until at most `most` calls wait.
  void limit_held(std::int64_t most);
  /// The result after the end of all ranks, except for the members that only the source knows.
  Stragglers finish();

 private:
  RankCalls::Route& route(RankCalls& rank, OpId op);
  ArrivalChannel& channel_of(const CallRoute& call, Iteration iteration);
  std::uint32_t strand_of(RankCalls& rank, const CallRoute& call);
  BlockComparison& comparison_of(const CallRoute& call);
  void arrive(RankCalls::Route& route, Iteration iteration, const Times& times);
  void ended(RankCalls& rank, std::uint32_t route, Iteration iteration, const RankTime::Totals& totals);
  bool has_counterparts(Iteration iteration) const;
  bool counts_as_work(Iteration iteration) const;
  std::int64_t label_in_group(Iteration iteration) const;
  static RankTime::MoreCompute compute_of(const CallSource& source, std::size_t stream);
  RankCalls* rank_at(Rank rank);
  void collect_work(Stragglers& result);

  const Trace& tables_;
  IterationFacts iterations_;
  bool lacks_start_;
  TimeSelection selection_;
  std::vector<RankCalls>& ranks_;
  ArrivalMatching arrivals_;
  std::map<ChannelKey, ArrivalChannel*> channels_;
  std::deque<BlockComparison> comparisons_;
  std::map<MatchedGroup, BlockComparison*> groups_;
  Stragglers result_;
};

}  // namespace commlens
