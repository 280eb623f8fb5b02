#include "commlens/live/late_ranks.hpp"

#include <algorithm>
#include <utility>

#include "commlens/base/sums.hpp"
#include "commlens/live/job_progress.hpp"
#include "commlens/live/late_rule.hpp"
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

LateRanks::Group& LateRanks::group_of(const CallRoute& call, std::size_t channel) {
  const auto [found, is_new] = known_.try_emplace(call.channel.group, nullptr);
  if (!is_new) {
    return *found->second;
  }
  GroupWork work{.axis = call.channel.group.axis, .members = call.members};
  Group& group = groups_.emplace_back(Group{.work = std::move(work), .channel = channel, .absent = {}});
  for (const Rank member : call.members) {
    const auto row = std::lower_bound(numbers_.begin(), numbers_.end(), member);
    const bool is_here = row != numbers_.end() && *row == member &&
                         ranks_[static_cast<std::size_t>(row - numbers_.begin())].is_here;
    if (!is_here) {
      group.absent.push_back(member);
    }
  }
  std::sort(group.absent.begin(), group.absent.end());
  compare_here(group);
  return *(found->second = &group);
}

void LateRanks::compare_here(Group& group) {
  if (group.absent.empty() && !group.compared) {
    group.compared.emplace(group.work);
  }
}

void LateRanks::arrive(std::size_t rank) {
  ranks_[rank].is_here = true;
  for (Group& group : groups_) {
    const auto absent = std::lower_bound(group.absent.begin(), group.absent.end(), numbers_[rank]);
    if (absent != group.absent.end() && *absent == numbers_[rank]) {
      group.absent.erase(absent);
      compare_here(group);
    }
  }
}

std::uint32_t LateRanks::route_of(std::size_t rank, OpId op, std::size_t channel) {
  One& one = ranks_[rank];
  const CallRoute call = commlens::route_of(tables_, op, numbers_[rank]);
  Route route;
  if (call.fate == CallFate::matched && !call.is_pair()) {
    Group& group = group_of(call, channel);
    const auto [known, is_new] = one.rows.try_emplace(&group, one.strands.size());
    route.strand = known->second;
    route.signature = work_signature(call.channel);
    if (is_new) {
      one.strands.push_back({.group = &group, .member = call.position});
    }
  }
  one.routes.push_back(route);
  return static_cast<std::uint32_t>(one.routes.size() - 1);
}

void LateRanks::Compared::add(std::size_t member, const CallParts::Given& given, std::int64_t end_ns) {
  Came& its = came[member];
  its.part_ns = end_ns;
  its.since_ns = saturating_sum(its.since_ns, given.part.length_ns());
  comparison.parts().push(member, given.label, given.part);
  if (!comparison.parts().is_ready()) {
    return;
  }
  const std::int64_t blocks = comparison.work().blocks;
  comparison.compare();
  if (comparison.work().blocks == blocks) {
    return;
  }
  block_ns = its.since_ns;  // of the member that was waited for: others may be further
  for (Came& each : came) {
    each.block_ns = each.part_ns;
    each.since_ns = 0;
  }
}

void LateRanks::give(One& one, std::size_t row, const CallParts::Given& given) {
  Strand& strand = one.strands[row];
  if (!strand.is_active) {
    strand.is_active = true;
    one.active.insert(std::upper_bound(one.active.begin(), one.active.end(), row), row);
  }
  if (!strand.group->compared) {
    strand.latest.add(given.label, given.part);
    strand.given_ns = strand.called_ns;
    return;
  }
  strand.latest.clear();
  Compared& compared = *strand.group->compared;
  compared.add(strand.member, given, strand.called_ns);
  if (!compared.is_moving) {
    compared.is_moving = true;
    moving_.push_back(&compared);
  }
}

void LateRanks::ended(One& one, std::uint32_t tag, std::int64_t iteration, const RankTime::Totals& totals) {
  const Route& its = one.routes[tag];
  if (its.strand >= one.strands.size()) {
    return;
  }
  Strand& strand = one.strands[its.strand];
  const std::int64_t call = strand.next++;
  const std::int64_t label = LatestBlocks::is_marked(iteration) ? iteration : LatestBlocks::unmarked(call);
  const bool counts = LatestBlocks::is_marked(label) || !has_training_;
  if (const std::optional<CallParts::Given> given =
          strand.parts.ended(label, counts, its.signature, totals)) {
    give(one, its.strand, *given);
  }
  strand.called_ns = one.time_at(totals);
}

void LateRanks::add(std::size_t rank, std::uint32_t route, const Times& times, Iteration iteration,
                    std::int64_t number) {
  has_training_ = has_training_ || iteration >= 0;
  One& one = ranks_[rank];
  if (const std::size_t row = one.routes[route].strand; row < one.strands.size()) {
    Strand& strand = one.strands[row];
    if (strand.cuts != one.cuts) {
      strand.cuts = one.cuts;
      strand.parts.restart();
      strand.next = std::max<std::int64_t>(number - 1, 0);
    }
  }
  const std::int64_t label = iteration == k_unknown_iteration ? -1 : iteration;
  one.time.add(occupied(times), route, label,
               [&](std::uint32_t tag, std::int64_t of, const RankTime::Totals& totals) {
                 ended(one, tag, of, totals);
               });
}

void LateRanks::cut(std::size_t rank) {
  One& one = ranks_[rank];
  one.time.finish([&](std::uint32_t tag, std::int64_t iteration, const RankTime::Totals& totals) {
    ended(one, tag, iteration, totals);
  });
  one.before_cuts = totals(rank);
  one.time = RankTime();
  ++one.cuts;
}

RankTime::Totals LateRanks::totals(std::size_t rank) const {
  RankTime::Totals totals = ranks_[rank].time.totals();
  totals.between_ns += ranks_[rank].before_cuts.between_ns;
  totals.in_calls_ns += ranks_[rank].before_cuts.in_calls_ns;
  return totals;
}

bool LateRanks::Strand::is_current(std::int64_t now_ns) const {
  const std::int64_t last_ns =
      group->compared ? group->compared->came[member].block_ns : given_ns - latest.open_ns();
  return is_in_use(last_ns, length_ns(), now_ns);
}

/// Communicators that are made again and again would be kept for ever.
void LateRanks::forget_unused(One& one) {
  std::erase_if(one.active, [&](std::size_t row) {
    Strand& strand = one.strands[row];
    if (is_in_use(strand.called_ns, strand.length_ns(), one.now_ns())) {
      return false;
    }
    strand.latest.clear();
    strand.is_active = false;
    return true;
  });
}

void LateRanks::mark() {
  for (One& one : ranks_) {
    forget_unused(one);
  }
  for (Compared* const compared : std::exchange(moving_, {})) {
    compared->is_moving = false;
    std::deque<Mark>& marks = compared->marks;
    BlockComparison& comparison = compared->comparison;
    if (comparison.waiting() > k_most_waiting) {
      comparison.parts().give_up();
    }
    const std::int64_t blocks = comparison.work().blocks;
    if (blocks - marks.back().blocks >= k_blocks / 2) {
      Mark& mark = marks.emplace_back();
      mark.blocks = blocks;
      for (const BlockComparison::Member& member : comparison.members()) {
        mark.slow.push_back(member.slow);
      }
    }
    while (marks.size() > 2 && blocks - marks[1].blocks >= k_blocks / 2) {
      marks.pop_front();
    }
  }
}

std::optional<LateRanks::Score> LateRanks::score(std::size_t rank) const {
  const One& one = ranks_[rank];
  std::optional<LateBasis> best;
  for (const std::size_t row : one.active) {
    const Strand& strand = one.strands[row];
    if (!strand.group->compared || !strand.is_current(one.now_ns())) {
      continue;
    }
    const Compared& compared = *strand.group->compared;
    const Mark& before = compared.marks.front();
    const std::int64_t blocks = compared.comparison.work().blocks - before.blocks;
    if (blocks < k_least_blocks) {
      continue;
    }
    const std::vector<BlockComparison::Member>& members = compared.comparison.members();
    const std::int64_t slow = members[strand.member].slow - before.slow[strand.member];
    const LateBasis basis{.has_enough_blocks = blocks >= k_enough_blocks,
                          .members = std::ssize(members),
                          .share = static_cast<double>(slow) / static_cast<double>(blocks)};
    best = best ? std::max(*best, basis) : basis;
  }
  return best ? std::optional(Score{best->share, best->members}) : std::nullopt;
}

std::vector<SpanningWork> LateRanks::spanning() const {
  std::vector<SpanningWork> all;
  for (std::size_t row = 0; row < ranks_.size(); ++row) {
    const One& one = ranks_[row];
    std::vector<std::pair<LateBasis, const Strand*>> told;
    for (const std::size_t active : one.active) {
      const Strand& strand = one.strands[active];
      if (!strand.group->compared && strand.group->channel != k_no_channel && strand.latest.whole() > 0 &&
          strand.is_current(one.now_ns())) {
        const bool has_enough = static_cast<std::int64_t>(strand.latest.whole()) >= k_enough_blocks;
        told.emplace_back(LateBasis{has_enough, std::ssize(strand.group->work.members)}, &strand);
      }
    }
    std::stable_sort(told.begin(), told.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    told.resize(std::min(told.size(), SpanningWork::k_most_of_rank));
    for (const auto& [basis, strand] : told) {
      // Groups along two axes may be one communicator.
      const std::size_t channel = strand->group->channel;
      if (!all.empty() && all.back().rank == numbers_[row] && all.back().channel == channel) {
        continue;
      }
      SpanningWork& work = all.emplace_back(strand->latest.told());
      work.rank = numbers_[row];
      work.channel = channel;
    }
  }
  return all;
}

}  // namespace commlens
