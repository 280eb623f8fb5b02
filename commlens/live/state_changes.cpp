#include "commlens/live/state_changes.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace commlens {

bool is_unmoved(const RankProgress& before, const RankProgress& now) {
  const auto numbers = [](const RankProgress& rank) {
    return rank.last ? std::pair(rank.last->channel, rank.last->number)
                     : std::pair(k_no_channel, std::int64_t{0});
  };
  const auto is_same = [](const SeenCall& a, const SeenCall& b) {
    return a.channel == b.channel && a.number == b.number && a.part == b.part;
  };
  return before.state.process == now.state.process && before.calls == now.calls &&
         numbers(before) == numbers(now) &&
         std::equal(before.open.begin(), before.open.end(), now.open.begin(), now.open.end(), is_same);
}

bool is_same_job(const JobView& before, const JobView& now) {
  const bool is_numbered = !before.job_id.empty() && !now.job_id.empty();
  return before.name == now.name && (!is_numbered || before.job_id == now.job_id);
}

bool has_other_processes(const JobView& before, const JobView& now) {
  std::map<Rank, const LiveRank*> ranks;
  for (const LiveRank& rank : before.ranks) {
    ranks[rank.rank] = &rank;
  }
  return std::any_of(now.ranks.begin(), now.ranks.end(), [&](const LiveRank& rank) {
    const auto known = ranks.find(rank.rank);
    return known != ranks.end() && rank.process && known->second->process &&
           *rank.process != *known->second->process;
  });
}

}  // namespace commlens
