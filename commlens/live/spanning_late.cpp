#include "commlens/live/spanning_late.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "commlens/base/sums.hpp"
#include "commlens/live/late_ranks.hpp"

namespace commlens {
namespace {

using Works = std::vector<const SpanningWork*>;

/// Whether there are enough blocks, how many members, and in which share of the blocks the rank was slow.
using Judgement = std::tuple<bool, std::int64_t, double>;

/// One of each member that tells, ascending; of those that count iterations and those that do not, the more.
Works members_of(Works works, std::vector<Rank> members) {
  std::sort(members.begin(), members.end());
  const auto is_marked = [](const SpanningWork* work) { return work->is_marked; };
  const bool are_marked =
      2 * std::count_if(works.begin(), works.end(), is_marked) > static_cast<std::int64_t>(works.size());
  std::erase_if(works, [&](const SpanningWork* work) {
    return work->is_marked != are_marked || work->blocks.empty() ||
           !std::binary_search(members.begin(), members.end(), work->rank);
  });
  std::stable_sort(works.begin(), works.end(),
                   [](const SpanningWork* a, const SpanningWork* b) { return a->rank < b->rank; });
  const auto is_same = [](const SpanningWork* a, const SpanningWork* b) { return a->rank == b->rank; };
  works.erase(std::unique(works.begin(), works.end(), is_same), works.end());
  return works;
}

/// Units at which a block of every member begins or ends.
std::vector<std::int64_t> common_bounds(const Works& works) {
  std::vector<std::int64_t> common;
  for (const SpanningWork* const work : works) {
    std::vector<std::int64_t> bounds = {work->begin};
    std::transform(work->blocks.begin(), work->blocks.end(), std::back_inserter(bounds),
                   [](const WorkBlock& block) { return block.end; });
    if (work == works.front()) {
      common = std::move(bounds);
      continue;
    }
    std::vector<std::int64_t> both;
    std::set_intersection(common.begin(), common.end(), bounds.begin(), bounds.end(),
                          std::back_inserter(both));
    common = std::move(both);
  }
  return common;
}

/// The work of one member up to a bound, from the block `next` on.
BlockComparison::Part work_until(const SpanningWork& work, std::int64_t bound, std::size_t& next) {
  BlockComparison::Part sum;
  for (; next < work.blocks.size() && work.blocks[next].end <= bound; ++next) {
    const BlockComparison::Part& part = work.blocks[next].work;
    sum.calls = saturating_sum(sum.calls, part.calls);
    sum.signature = (sum.signature + part.signature) & SpanningWork::k_signature;
    sum.between_ns = saturating_sum(sum.between_ns, part.between_ns);
    sum.in_calls_ns = saturating_sum(sum.in_calls_ns, part.in_calls_ns);
  }
  return sum;
}

BlockComparison compared(const Works& works) {
  BlockComparison comparison({.members = std::vector<Rank>(works.size())},
                             std::vector<std::int64_t*>(works.size()));
  std::vector<std::size_t> next(works.size());
  std::vector<BlockComparison::Part> parts(works.size());
  bool is_first = true;
  for (const std::int64_t bound : common_bounds(works)) {
    for (std::size_t member = 0; member < works.size(); ++member) {
      parts[member] = work_until(*works[member], bound, next[member]);
    }
    if (!is_first) {  // what comes before is not common
      comparison.add(parts);
    }
    is_first = false;
  }
  return comparison;
}

}  // namespace

void SpanningLate::judge(const std::vector<CallChannel>& channels, std::vector<LiveRank>& ranks) const {
  std::map<Rank, Judgement> best;
  for (const auto& [channel, all] : works_) {
    const std::vector<Rank>& members = channels[channel].members;
    const Works works = members_of(all, members);
    if (works.size() < 2 || 2 * works.size() <= members.size()) {
      continue;
    }
    const BlockComparison comparison = compared(works);
    const std::int64_t blocks = comparison.work().blocks;
    for (std::size_t member = 0; member < works.size() && blocks > 0; ++member) {
      const double share =
          static_cast<double>(comparison.members()[member].slow) / static_cast<double>(blocks);
      const Judgement its(blocks >= LateRanks::k_enough_blocks, std::ssize(members), share);
      const auto [found, is_new] = best.try_emplace(works[member]->rank, its);
      found->second = std::max(found->second, its);
    }
  }
  for (LiveRank& rank : ranks) {
    const auto found = best.find(rank.rank);
    if (found == best.end()) {
      continue;
    }
    const auto& [is_enough, members, share] = found->second;
    if (!rank.late_score || (is_enough && members >= rank.late_members)) {
      rank.late_score = share;
      rank.late_members = members;
    }
  }
}

}  // namespace commlens
