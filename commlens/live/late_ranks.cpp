#include "commlens/live/late_ranks.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "commlens/live/job_progress.hpp"
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
    const auto known = std::find_if(one.strands.begin(), one.strands.end(),
                                    [&](const Strand& strand) { return strand.group == &group; });
    route.strand = static_cast<std::size_t>(known - one.strands.begin());
    route.signature = work_signature(call.channel);
    if (known == one.strands.end()) {
      one.strands.push_back({.group = &group, .member = call.position});
    }
  }
  one.routes.push_back(route);
  return static_cast<std::uint32_t>(one.routes.size() - 1);
}

void LateRanks::give(Strand& strand, const CallParts::Given& given) {
  if (!strand.group->compared) {
    strand.latest.add(given.label, given.part);
    return;
  }
  strand.latest.clear();
  BlockComparison& comparison = strand.group->compared->comparison;
  comparison.parts().push(strand.member, given.label, given.part);
  if (comparison.parts().is_ready()) {
    comparison.compare();
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
    give(strand, *given);
  }
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

void LateRanks::mark() {
  for (Group& group : groups_) {
    if (!group.compared) {
      continue;
    }
    auto& [marks, comparison] = *group.compared;
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
  std::optional<Score> score;
  std::tuple<bool, std::size_t, double> best;
  for (const Strand& strand : ranks_[rank].strands) {
    if (!strand.group->compared) {
      continue;
    }
    const auto& [marks, comparison] = *strand.group->compared;
    const Mark& before = marks.front();
    const std::int64_t blocks = comparison.work().blocks - before.blocks;
    if (blocks <= 0) {
      continue;
    }
    const std::int64_t slow = comparison.members()[strand.member].slow - before.slow[strand.member];
    const double share = static_cast<double>(slow) / static_cast<double>(blocks);
    const std::tuple weight(blocks >= k_enough_blocks, comparison.members().size(), share);
    if (!score || weight > best) {
      best = weight;
      score = Score{share, std::ssize(comparison.members())};
    }
  }
  return score;
}

std::vector<SpanningWork> LateRanks::spanning() const {
  std::vector<SpanningWork> all;
  for (std::size_t row = 0; row < ranks_.size(); ++row) {
    std::vector<const Strand*> told;
    for (const Strand& strand : ranks_[row].strands) {
      if (!strand.group->compared && strand.group->channel != k_no_channel && strand.latest.whole() > 0) {
        told.push_back(&strand);
      }
    }
    constexpr auto enough = static_cast<std::size_t>(k_enough_blocks);
    const auto weight = [](const Strand* strand) {
      return std::pair(strand->latest.whole() >= enough, strand->group->work.members.size());
    };
    std::stable_sort(told.begin(), told.end(),
                     [&](const Strand* a, const Strand* b) { return weight(a) > weight(b); });
    told.resize(std::min(told.size(), k_most_spanning));
    for (const Strand* const strand : told) {
      SpanningWork& work = all.emplace_back(strand->latest.told());
      work.rank = numbers_[row];
      work.channel = strand->group->channel;
    }
  }
  return all;
}

}  // namespace commlens
