#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "commlens/base/sums.hpp"
#include "commlens/live/work_blocks.hpp"
#include "commlens/summary/call_routes.hpp"
#include "commlens/summary/rank_time.hpp"
#include "commlens/summary/slow_ranks.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Which ranks delay the others lately, by the time between calls and without comparing clocks, as
/// summary/slow_ranks.hpp finds them; computing inside of calls is not known here. A rank is judged by the
/// widest of its communicators that are in use and have blocks (late_rule.hpp), in the latest of these. Of
/// communicators with members that are not here the latest blocks are kept, for those who know the others'.
class LateRanks {
 public:
  /// Blocks that a score covers, about: at least half as many, where there were so many.
  static constexpr std::int64_t k_blocks = 32;
  /// Calls of a communicator that wait for those of its other members; beyond, it is given up.
  static constexpr std::int64_t k_most_waiting = std::int64_t{1} << 16;

  struct Score {
    double share = 0;
    std::int64_t members = 0;  // of the communicator
  };

  /// Ranks by their rows, ascending. `tables` outlives it.
  LateRanks(const Trace& tables, const std::vector<Rank>& ranks);

  /// A rank has files here.
  void arrive(std::size_t rank);
  /// The number of an op of a rank, for add(); an op that has one is not to be asked for again. `channel`: of
  /// its calls, by LiveProgress.
  std::uint32_t route_of(std::size_t rank, OpId op, std::size_t channel);

  /// A finished call of a rank, of about issue order; `route` as route_of() gave it, `number` by LiveNumbers.
  void add(std::size_t rank, std::uint32_t route, const Times& times, Iteration iteration,
           std::int64_t number);
  /// Calls of a rank are missing here; later ones have numbers by which they are compared.
  void cut(std::size_t rank);
  /// Takes down where the communicators are, once a poll; what is kept of those that are out of use is
  /// dropped.
  void mark();

  /// Absent until the rank's communicators have blocks.
  std::optional<Score> score(std::size_t rank) const;
  /// By ranks.
  std::vector<SpanningWork> spanning() const;
  RankTime::Totals totals(std::size_t rank) const;

 private:
  struct Mark {
    std::int64_t blocks = 0;
    std::vector<std::int64_t> slow;  // by member
  };
  /// Of a member, by the time of its rank.
  struct Came {
    std::int64_t part_ns = 0;   // the end of its last part …
    std::int64_t block_ns = 0;  // … when the last block was compared
    std::int64_t since_ns = 0;  // the length of its parts since then
  };
  /// Of a communicator all of whose members are here.
  struct Compared {
    explicit Compared(GroupWork work)
        : marks{Mark{0, std::vector<std::int64_t>(work.members.size())}},
          came(work.members.size()),
          comparison(std::move(work), std::vector<std::int64_t*>(came.size())) {}
    void add(std::size_t member, const CallParts::Given& given, std::int64_t end_ns);
    std::deque<Mark> marks;     // never empty; the first is what the latest blocks come after
    std::vector<Came> came;     // by member
    std::int64_t block_ns = 0;  // about the length of the last block
    bool is_moving = false;     // since the last poll
    BlockComparison comparison;
  };
  struct Group {
    GroupWork work;
    std::size_t channel = 0;
    std::vector<Rank> absent;  // ascending
    std::optional<Compared> compared{};
  };
  struct Strand {
    Group* group = nullptr;
    std::size_t member = 0;
    CallParts parts{};
    std::int64_t next = 0;  // place of its next call among those of the communicator
    std::int64_t cuts = 0;
    std::int64_t called_ns = 0;  // its last call, by the time of the rank
    std::int64_t given_ns = 0;   // the end of the last part in `latest`
    bool is_active = false;      // a row of One::active
    LatestBlocks latest{};       // where the group is not compared here
    std::int64_t length_ns() const { return group->compared ? group->compared->block_ns : latest.last_ns(); }
    bool is_current(std::int64_t now_ns) const;
  };
  /// Where the calls of an op are compared.
  struct Route {
    std::size_t strand = SIZE_MAX;
    std::uint64_t signature = 0;
  };
  struct One {
    RankTime time;
    RankTime::Totals before_cuts;
    std::int64_t cuts = 0;
    bool is_here = false;
    std::vector<Strand> strands;
    std::unordered_map<const Group*, std::size_t> rows;  // of its strands
    std::vector<std::size_t> active;                     // ascending: strands that may be judged
    std::vector<Route> routes;
    std::int64_t time_at(const RankTime::Totals& totals) const {
      return saturating_sum(before_cuts.all_ns(), totals.all_ns());
    }
    std::int64_t now_ns() const { return time_at(time.totals()); }
  };

  Group& group_of(const CallRoute& call, std::size_t channel);
  static void compare_here(Group& group);
  void ended(One& one, std::uint32_t tag, std::int64_t iteration, const RankTime::Totals& totals);
  void give(One& one, std::size_t row, const CallParts::Given& given);
  static void forget_unused(One& one);

  const Trace& tables_;
  std::vector<Rank> numbers_;
  std::vector<One> ranks_;
  std::deque<Group> groups_;
  std::vector<Compared*> moving_;
  std::map<MatchedGroup, Group*> known_;
  bool has_training_ = false;
};

}  // namespace commlens
