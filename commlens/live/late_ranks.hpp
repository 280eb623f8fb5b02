#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "commlens/summary/call_routes.hpp"
#include "commlens/summary/rank_time.hpp"
#include "commlens/summary/slow_ranks.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Which ranks delay the others lately, by the time between calls and without comparing clocks, as
/// summary/slow_ranks.hpp finds them; computing inside of calls is not known here. A rank is judged by the
/// widest of its communicators that have blocks, in the latest of these.
class LateRanks {
 public:
  /// Blocks that a score covers, about: at least half as many, where there were so many.
  static constexpr std::int64_t k_blocks = 32;
  /// Calls of a communicator that wait for those of its other members; beyond, it is given up.
  static constexpr std::int64_t k_most_waiting = std::int64_t{1} << 16;

  /// Ranks by their rows, ascending. `tables` outlives it.
  LateRanks(const Trace& tables, const std::vector<Rank>& ranks);

  /// The number of an op of a rank, for add(); an op that has one is not to be asked for again.
  std::uint32_t route_of(std::size_t rank, OpId op);

  /// A finished call of a rank, of about issue order; `route` as route_of() gave it.
  void add(std::size_t rank, std::uint32_t route, const Times& times, Iteration iteration);
  /// Takes down where the communicators are, once a poll.
  void mark();

  /// Absent until the rank's communicators have blocks.
  std::optional<double> score(std::size_t rank) const;
  const RankTime::Totals& totals(std::size_t rank) const { return ranks_[rank].time.totals(); }

 private:
  struct Mark {
    std::int64_t blocks = 0;
    std::vector<std::int64_t> slow;  // by member
  };
  struct Group {
    Group(GroupWork work, std::size_t members)
        : comparison(std::move(work), std::vector<std::int64_t*>(members)),
          marks{Mark{0, std::vector<std::int64_t>(members)}} {}
    BlockComparison comparison;
    std::deque<Mark> marks;  // never empty; the first is what the latest blocks come after
  };
  struct Strand {
    Group* group = nullptr;
    std::size_t member = 0;
    GroupStrand strand;
  };
  /// Where the calls of an op are compared.
  struct Route {
    std::size_t strand = SIZE_MAX;
    std::uint64_t signature = 0;
  };
  struct One {
    RankTime time;
    std::vector<Strand> strands;
    std::vector<Route> routes;
  };

  Group& group_of(const CallRoute& call);

  const Trace& tables_;
  std::vector<Rank> numbers_;
  std::vector<One> ranks_;
  std::deque<Group> groups_;
  std::map<MatchedGroup, Group*> known_;
  bool has_training_ = false;
};

}  // namespace commlens
