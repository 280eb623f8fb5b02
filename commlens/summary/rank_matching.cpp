#include "commlens/summary/rank_matching.hpp"

#include <algorithm>
#include <tuple>

namespace commlens {
namespace {

constexpr std::uint32_t k_no_strand = UINT32_MAX;

/// Distinguishes calls that cannot be the same collective. Sizes are not compared: they may differ between
/// members.
std::uint64_t signature_of(const ChannelKey& key) {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15U;  // 2^64 over the golden ratio
  std::uint64_t bits =
      (static_cast<std::uint64_t>(key.kind) << 32U) ^ static_cast<std::uint64_t>(key.root + 1);
  bits = (bits + 1) * odd;
  return (bits ^ (bits >> 29U)) * odd;
}

constexpr std::int64_t k_enough_blocks = 8;

/// A rank in the blocks of one of its communicators.
struct Candidate {
  const BlockComparison* group = nullptr;
  std::size_t row = 0;
  std::size_t member = 0;
};

/// The communicator by which a rank is judged (slow_ranks.hpp).
void judge(RankWork& work, const std::vector<Candidate>& candidates) {
  std::int64_t most = 0;
  for (const Candidate& candidate : candidates) {
    most = std::max(most, candidate.group->work().blocks);
  }
  const std::int64_t enough = std::min(k_enough_blocks, (most + 1) / 2);
  std::tuple<std::size_t, std::int64_t, std::int64_t> best;
  for (const Candidate& candidate : candidates) {
    const GroupWork& group = candidate.group->work();
    const BlockComparison::Member& its = candidate.group->members()[candidate.member];
    const std::tuple weight(group.members.size(), its.excess_ns, group.blocks);
    if (group.blocks > 0 && group.blocks >= enough && weight > best) {
      best = weight;
      work.blocks = group.blocks;
      work.slow = its.slow;
      work.excess = std::chrono::nanoseconds(its.excess_ns);
      work.group = candidate.row;
    }
  }
}

}  // namespace

std::size_t OpRows::place_of(std::uint32_t op) const {
  std::size_t place = (op * std::size_t{0x9E3779B1U}) >> 7U & (slots_.size() - 1);
  while (slots_[place].op != 0 && slots_[place].op != op + 1) {
    place = (place + 1) & (slots_.size() - 1);
  }
  return place;
}

std::pair<std::uint32_t, bool> OpRows::row_of(OpId op) {
  const auto number = static_cast<std::uint32_t>(op);
  std::size_t place = place_of(number);
  if (slots_[place].op != 0) {
    return {slots_[place].row, false};
  }
  if (2 * (rows_ + 1) > slots_.size()) {
    grow();
    place = place_of(number);
  }
  slots_[place] = {number + 1, rows_};
  return {rows_++, true};
}

void OpRows::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.op != 0) {
      slots_[place_of(slot.op - 1)] = slot;
    }
  }
}

RankMatching::RankMatching(const CallSource& source, const IterationFacts& iterations,
                           const StragglerOptions& options, std::vector<RankCalls>& ranks)
    : tables_(source.tables),
      iterations_(iterations),
      lacks_start_(source.tables.provenance.skipped.contains(std::string(k_skipped_overwritten))),
      selection_{options.iterations, {}},
      ranks_(ranks),
      arrivals_(options.worst) {
  for (RankCalls& rank : ranks_) {
    rank.work.rank = rank.rank;
    if (source.has_compute[rank.cursor.stream]) {
      rank.time = RankTime(compute_of(source, rank.cursor.stream));
    }
  }
}

/// Returns the compute intervals of a stream in parts owned by the caller.
RankTime::MoreCompute RankMatching::compute_of(const CallSource& source, std::size_t stream) {
  return [&source, cursor = StreamCursor{stream}]() mutable -> std::vector<ComputeInterval> {
    const std::span<const ComputeInterval> some = source.compute(cursor);
    return {some.begin(), some.end()};
  };
}

RankCalls* RankMatching::rank_at(Rank rank) {
  const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), rank,
                                      [](const RankCalls& a, Rank b) { return a.rank < b; });
  return found == ranks_.end() || found->rank != rank ? nullptr : &*found;
}

ArrivalChannel& RankMatching::channel_of(const CallRoute& call, Iteration iteration) {
  ChannelKey key = call.channel;
  key.iteration = iteration;
  const auto [found, is_new] = channels_.try_emplace(std::move(key), nullptr);
  if (!is_new) {
    return *found->second;
  }
  std::vector<RankLateness*> lateness;
  std::vector<std::int64_t*> held;
  for (const Rank member : call.members) {
    RankCalls* const rank = rank_at(member);
    lateness.push_back(rank == nullptr ? nullptr : &rank->lateness);
    held.push_back(rank == nullptr ? nullptr : &rank->held);
  }
  ArrivalChannel& channel = arrivals_.add(call, std::move(lateness), std::move(held));
  found->second = &channel;
  for (std::size_t member = 0; member < call.members.size(); ++member) {
    RankCalls* const rank = rank_at(call.members[member]);
    if (rank == nullptr || rank->has_ended) {
      channel.lanes.end(member);
    } else {
      rank->channels.emplace_back(&channel, member);
    }
  }
  return channel;
}

BlockComparison& RankMatching::comparison_of(const CallRoute& call) {
  const auto [found, is_new] = groups_.try_emplace(call.channel.group, nullptr);
  if (!is_new) {
    return *found->second;
  }
  std::vector<std::int64_t*> held;
  for (const Rank member : call.members) {
    RankCalls* const rank = rank_at(member);
    held.push_back(rank == nullptr ? nullptr : &rank->held);
  }
  GroupWork group{.axis = call.channel.group.axis, .members = call.members};
  if (call.channel.group.list) {
    group.communicator = tables_.groups.communicator(*call.channel.group.list);
  }
  BlockComparison& comparison = comparisons_.emplace_back(std::move(group), std::move(held));
  found->second = &comparison;
  for (std::size_t member = 0; member < call.members.size(); ++member) {
    RankCalls* const rank = rank_at(call.members[member]);
    if (rank == nullptr || rank->has_ended) {
      comparison.parts().end(member);
    } else {
      rank->comparisons.emplace_back(&comparison, member);
    }
  }
  return comparison;
}

std::uint32_t RankMatching::strand_of(RankCalls& rank, const CallRoute& call) {
  if (call.fate != CallFate::matched || call.is_pair()) {
    return k_no_strand;
  }
  BlockComparison& comparison = comparison_of(call);
  for (std::size_t strand = 0; strand < rank.strands.size(); ++strand) {
    if (rank.strands[strand].is_of(comparison)) {
      return static_cast<std::uint32_t>(strand);
    }
  }
  rank.strands.emplace_back(comparison, call.position);
  return static_cast<std::uint32_t>(rank.strands.size() - 1);
}

RankCalls::Route& RankMatching::route(RankCalls& rank, OpId op) {
  const auto [row, is_new] = rank.ops.row_of(op);
  if (is_new) {
    RankCalls::Route route{.call = route_of(tables_, op, rank.rank)};
    route.strand = strand_of(rank, route.call);
    route.signature = signature_of(route.call.channel);
    rank.routes.push_back(std::move(route));
  }
  return rank.routes[row];
}

bool RankMatching::counts_as_work(Iteration iteration) const {
  return selects(selection_, iteration) && (iteration >= 0 || !iterations_.has_training);
}

std::int64_t RankMatching::label_in_group(Iteration iteration) const {
  return iterations_.order == IterationFacts::Order::any ? 0 : label_of(iteration, iterations_.order);
}

void RankMatching::arrive(RankCalls::Route& route, Iteration iteration, const Times& times) {
  const bool is_any = iterations_.order == IterationFacts::Order::any;
  if (route.arrivals == nullptr || (is_any && route.iteration != iteration)) {
    route.iteration = iteration;
    route.arrivals = &channel_of(route.call, is_any ? iteration : 0);
  }
  const std::chrono::nanoseconds arrived = held(times.issued);
  route.arrivals->lanes.push(route.call.position, label_of(iteration, iterations_.order),
                             {arrived, std::max(arrived, held(times.finished))});
  if (route.arrivals->lanes.is_ready()) {
    arrivals_.match(*route.arrivals);
  }
}

/// Of ranks whose first calls were overwritten, the k-th calls that are left do not belong together; those of
/// an iteration do.
bool RankMatching::has_counterparts(Iteration iteration) const { return iteration >= 0 || !lacks_start_; }

void RankMatching::ended(RankCalls& rank, std::uint32_t row, Iteration iteration,
                         const RankTime::Totals& totals) {
  const RankCalls::Route& route = rank.routes[row];
  const bool counts = counts_as_work(iteration);
  if (counts && rank.has_mark) {
    rank.work.between_calls += std::chrono::nanoseconds(totals.between_ns - rank.mark.between_ns);
    rank.work.in_calls += std::chrono::nanoseconds(totals.in_calls_ns - rank.mark.in_calls_ns);
  }
  rank.has_mark = counts;
  rank.mark = totals;
  if (route.strand != k_no_strand && has_counterparts(iteration)) {
    rank.strands[route.strand].ended(label_in_group(iteration), counts, route.signature, totals);
  }
}

void RankMatching::add(RankCalls& rank, const CallSpan& calls) {
  const auto on_end = [&](std::uint32_t row, std::int64_t iteration, const RankTime::Totals& totals) {
    ended(rank, row, static_cast<Iteration>(iteration), totals);
  };
  for (std::size_t at = 0; at < calls.events.size(); ++at) {
    const CommEvent& event = calls.events[at];
    RankCalls::Route& its = route(rank, event.op);
    if (selects(selection_, event.iteration)) {
      result_.without_group += its.call.fate == CallFate::without_group ? 1 : 0;
      result_.unclassified += its.call.fate == CallFate::unclassified ? 1 : 0;
      if (its.call.fate == CallFate::matched && has_counterparts(event.iteration)) {
        arrive(its, event.iteration, calls.times[at]);
      }
    }
    rank.time.add(occupied(calls.times[at]), static_cast<std::uint32_t>(&its - rank.routes.data()),
                  event.iteration, on_end);
  }
}

void RankMatching::end(RankCalls& rank) {
  rank.time.finish([&](std::uint32_t row, std::int64_t iteration, const RankTime::Totals& totals) {
    ended(rank, row, static_cast<Iteration>(iteration), totals);
  });
  for (GroupStrand& strand : rank.strands) {
    strand.finish();
  }
  rank.has_ended = true;
  for (const auto& [channel, member] : rank.channels) {
    channel->lanes.end(member);
    arrivals_.match(*channel);
  }
  for (const auto& [comparison, member] : rank.comparisons) {
    comparison->parts().end(member);
    comparison->compare();
  }
  rank.ops = {};
  rank.routes = {};
  rank.channels = {};
}

void RankMatching::limit_held(std::int64_t most) {
  std::int64_t all = 0;
  for (const RankCalls& rank : ranks_) {
    all += rank.held;
  }
  while (all > most) {
    const auto is_less = [](const auto& a, const auto& b) { return a.lanes.waiting() < b.lanes.waiting(); };
    const auto channel = std::max_element(arrivals_.channels().begin(), arrivals_.channels().end(), is_less);
    const auto group = std::max_element(
        comparisons_.begin(), comparisons_.end(),
        [](const BlockComparison& a, const BlockComparison& b) { return a.waiting() < b.waiting(); });
    const bool is_group = channel == arrivals_.channels().end() ||
                          (group != comparisons_.end() && group->waiting() > channel->lanes.waiting());
    all -= is_group ? group->parts().give_up() : channel->lanes.give_up();
  }
}

Stragglers RankMatching::finish() {
  arrivals_.finish(result_);
  for (const RankCalls& rank : ranks_) {
    result_.ranks.push_back(rank.lateness);
  }
  collect_work(result_);
  return std::move(result_);
}

void RankMatching::collect_work(Stragglers& result) {
  SlowRanks& slow = result.slow;
  std::vector<BlockComparison*> groups;
  for (BlockComparison& comparison : comparisons_) {
    comparison.finish();
    groups.push_back(&comparison);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const BlockComparison* a, const BlockComparison* b) {
    const auto key = [](const GroupWork& work) {
      return std::tie(work.axis, work.members, work.communicator);
    };
    return key(a->work()) < key(b->work());
  });
  std::map<Rank, std::vector<Candidate>> candidates;
  for (std::size_t row = 0; row < groups.size(); ++row) {
    const BlockComparison& group = *groups[row];
    slow.groups.push_back(group.work());
    slow.blocks += group.work().blocks;
    slow.differing += group.work().differing;
    for (std::size_t member = 0; member < group.members().size(); ++member) {
      candidates[group.work().members[member]].push_back({&group, row, member});
    }
  }
  for (RankCalls& rank : ranks_) {
    judge(rank.work, candidates[rank.rank]);
  }
  for (const RankCalls& rank : ranks_) {
    slow.ranks.push_back(rank.work);
  }
}

}  // namespace commlens
