#include "commlens/live/spanning_late.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "commlens/live/late_rule.hpp"

namespace commlens {
namespace {

using Works = std::vector<const SpanningWork*>;

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
  WorkBlock sum;
  for (; next < work.blocks.size() && work.blocks[next].end <= bound; ++next) {
    sum.add(work.blocks[next].work);
  }
  return sum.work;
}

/// Of the member that has the most, its blocks between two bounds.
std::int64_t most_blocks(const Works& works, std::int64_t begin, std::int64_t end) {
  std::int64_t most = 0;
  for (const SpanningWork* const work : works) {
    most = std::max<std::int64_t>(
        most, std::count_if(work->blocks.begin(), work->blocks.end(),
                            [&](const WorkBlock& block) { return block.end > begin && block.end <= end; }));
  }
  return most;
}

/// Where the blocks of a member are twice as large as those of others, half as many are common.
bool has_enough_blocks(const Works& works, const std::vector<std::int64_t>& bounds, std::int64_t blocks) {
  if (2 * blocks < k_enough_blocks || bounds.empty()) {
    return false;
  }
  const std::int64_t most = most_blocks(works, bounds.front(), bounds.back());
  return blocks >= k_enough_blocks || most * blocks / (std::ssize(bounds) - 1) >= k_enough_blocks;
}

BlockComparison compared(const Works& works, const std::vector<std::int64_t>& bounds) {
  BlockComparison comparison({.members = std::vector<Rank>(works.size())},
                             std::vector<std::int64_t*>(works.size()));
  std::vector<std::size_t> next(works.size());
  std::vector<BlockComparison::Part> parts(works.size());
  for (const std::int64_t bound : bounds) {
    for (std::size_t member = 0; member < works.size(); ++member) {
      parts[member] = work_until(*works[member], bound, next[member]);
    }
    if (bound != bounds.front()) {  // what comes before is not common
      comparison.add(parts);
    }
  }
  return comparison;
}

}  // namespace

void SpanningLate::judge(const std::vector<CallChannel>& channels, std::vector<LiveRank>& ranks) const {
  std::map<Rank, LateBasis> best;
  for (const auto& [channel, all] : works_) {
    const std::vector<Rank>& members = channels[channel].members;
    const auto are_most = [&](const Works& works) {
      return works.size() >= 2 && 2 * works.size() > members.size();
    };
    if (!are_most(all)) {
      continue;
    }
    const Works works = members_of(all, members);
    if (!are_most(works)) {
      continue;
    }
    const std::vector<std::int64_t> bounds = common_bounds(works);
    const BlockComparison comparison = compared(works, bounds);
    const std::int64_t blocks = comparison.work().blocks;
    LateBasis basis{.has_enough_blocks = has_enough_blocks(works, bounds, blocks),
                    .members = std::ssize(members)};
    for (std::size_t member = 0; member < works.size() && blocks >= k_least_blocks; ++member) {
      basis.share = static_cast<double>(comparison.members()[member].slow) / static_cast<double>(blocks);
      const auto [found, is_new] = best.try_emplace(works[member]->rank, basis);
      found->second = std::max(found->second, basis);
    }
  }
  for (LiveRank& rank : ranks) {
    const auto found = best.find(rank.rank);
    if (found == best.end()) {
      continue;
    }
    const LateBasis& basis = found->second;
    if (!rank.late_score || (basis.has_enough_blocks && basis.members >= rank.late_members)) {
      rank.late_score = basis.share;
      rank.late_members = basis.members;
    }
  }
}

}  // namespace commlens
