#include "commlens/live/late_ranks.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "commlens/summary/overlap.hpp"

namespace commlens {
namespace {

/// Tells apart calls that cannot be the same collective.
std::uint64_t work_signature(const ChannelKey& key) {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15U;  // 2^64 over the golden ratio
  const std::uint64_t bits =
      (static_cast<std::uint64_t>(key.kind) << 32U) ^ static_cast<std::uint64_t>(key.root + 1);
  const std::uint64_t mixed = (bits + 1) * odd;
  return (mixed ^ (mixed >> 29U)) * odd;
}

}  // namespace

LateRanks::LateRanks(const Trace& tables, const std::vector<Rank>& ranks)
    : tables_(tables), numbers_(ranks), ranks_(ranks.size()) {}

LateRanks::Group& LateRanks::group_of(const CallRoute& call) {
  const auto [found, is_new] = known_.try_emplace(call.channel.group, nullptr);
  if (is_new) {
    GroupWork work{.axis = call.channel.group.axis, .members = call.members};
    found->second = &groups_.emplace_back(std::move(work), call.members.size());
  }
  return *found->second;
}

std::uint32_t LateRanks::route_of(std::size_t rank, OpId op) {
  One& one = ranks_[rank];
  const CallRoute call = commlens::route_of(tables_, op, numbers_[rank]);
  Route route;
  if (call.fate == CallFate::matched && !call.is_pair()) {
    Group& group = group_of(call);
    const auto known = std::find_if(one.strands.begin(), one.strands.end(),
                                    [&](const Strand& strand) { return strand.group == &group; });
    route.strand = static_cast<std::size_t>(known - one.strands.begin());
    route.signature = work_signature(call.channel);
    if (known == one.strands.end()) {
      one.strands.push_back({&group, call.position, GroupStrand(group.comparison, call.position)});
    }
  }
  one.routes.push_back(route);
  return static_cast<std::uint32_t>(one.routes.size() - 1);
}

void LateRanks::add(std::size_t rank, std::uint32_t route, const Times& times, Iteration iteration) {
  has_training_ = has_training_ || iteration >= 0;
  One& one = ranks_[rank];
  const auto on_end = [&](std::uint32_t tag, std::int64_t label, const RankTime::Totals& totals) {
    const Route& its = one.routes[tag];
    if (its.strand < one.strands.size()) {
      const bool counts = label >= 0 || !has_training_;
      one.strands[its.strand].strand.ended(label, counts, its.signature, totals);
    }
  };
  const std::int64_t label = iteration == k_unknown_iteration ? -1 : iteration;
  one.time.add(occupied(times), route, label, on_end);
}

void LateRanks::mark() {
  for (Group& group : groups_) {
    if (group.comparison.waiting() > k_most_waiting) {
      group.comparison.parts().give_up();
    }
    const std::int64_t blocks = group.comparison.work().blocks;
    if (blocks - group.marks.back().blocks >= k_blocks / 2) {
      Mark& mark = group.marks.emplace_back();
      mark.blocks = blocks;
      for (const BlockComparison::Member& member : group.comparison.members()) {
        mark.slow.push_back(member.slow);
      }
    }
    while (group.marks.size() > 2 && blocks - group.marks[1].blocks >= k_blocks / 2) {
      group.marks.pop_front();
    }
  }
}

std::optional<double> LateRanks::score(std::size_t rank) const {
  constexpr std::int64_t enough = 8;
  std::optional<double> score;
  std::tuple<bool, std::size_t, double> best;
  for (const Strand& strand : ranks_[rank].strands) {
    const Group& group = *strand.group;
    const Mark& before = group.marks.front();
    const std::int64_t blocks = group.comparison.work().blocks - before.blocks;
    if (blocks <= 0) {
      continue;
    }
    const std::int64_t slow = group.comparison.members()[strand.member].slow - before.slow[strand.member];
    const double share = static_cast<double>(slow) / static_cast<double>(blocks);
    const std::tuple weight(blocks >= enough, group.comparison.members().size(), share);
    if (!score || weight > best) {
      best = weight;
      score = share;
    }
  }
  return score;
}

}  // namespace commlens
