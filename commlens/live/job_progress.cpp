#include "commlens/live/job_progress.hpp"

#include <algorithm>
#include <set>

#include "commlens/base/sums.hpp"
#include "commlens/live/call_signature.hpp"

namespace commlens {

const ProgressBuilder::Place ProgressBuilder::k_uncounted;

void ProgressBuilder::begin_rank(const RankState& state, const Trace& tables) {
  if (tables_ != &tables) {
    tables_ = &tables;
    places_.clear();
  }
  last_.reset();
  job_.ranks.push_back({.state = state});
}

void ProgressBuilder::skip(OpId op, std::int64_t calls) {
  RankProgress& rank = job_.ranks.back();
  rank.calls = saturating_sum(rank.calls, calls);
  const Place place = place_of(op);
  if (place.channel == k_no_channel) {
    return;
  }
  std::int64_t& entered = rank.entered[place.channel];
  if (entered > 0) {  // which of both the calls under way are counted in is not known
    rank.state.lost = saturating_sum(rank.state.lost, 1);
  }
  entered = saturating_sum(entered, calls);
}

void ProgressBuilder::add(const StatedCall& call) {
  RankProgress& rank = job_.ranks.back();
  if (call.state == CallState::cancelled) {
    return;
  }
  rank.calls += call.is_overwritten ? 0 : 1;
  const Place place = call.is_counted ? place_of(call.op) : k_uncounted;
  std::int64_t number = 0;
  if (place.channel != k_no_channel) {
    std::int64_t& entered = rank.entered[place.channel];
    number = call.number.value_or(entered + 1);
    const bool is_first = number > entered;  // several calls that were joined have one number
    entered = std::max(entered, number);
    if (place.part == CallPart::collective && rank.is_known() && is_first) {
      compare(place.channel, number, place.signature);
    }
  }
  if (call.state == CallState::under_way) {
    const bool is_blocking = tables_->op(call.op).blocking.value_or(false);
    if (rank.open.size() < RankProgress::most(is_blocking)) {
      rank.open.push_back(seen(call, place, number));
    }
  } else {
    last_.emplace(call, number);
  }
}

void ProgressBuilder::end_rank() {
  if (last_) {
    const StatedCall& call = last_->first;
    job_.ranks.back().has_last_failed = call.state == CallState::failed;
    job_.ranks.back().last = seen(call, call.is_counted ? place_of(call.op) : k_uncounted, last_->second);
  }
}

JobProgress ProgressBuilder::finish() {
  add_unrecorded(job_);
  for (std::size_t channel = 0; channel < references_.size(); ++channel) {
    if (std::optional<CallDifference> difference = difference_of(channel)) {
      job_.differences.push_back(std::move(*difference));
    }
  }
  return std::move(job_);
}

// A list of ranks is the same seen from all of them; a pattern is not.
ProgressBuilder::Place ProgressBuilder::place_of(OpId op) {
  const CommOp& described = tables_->op(op);
  if (tables_->groups.pattern(described.group) != nullptr) {
    return new_place(described);
  }
  const auto [found, is_new] = places_.try_emplace(static_cast<std::uint32_t>(op));
  if (is_new) {
    found->second = new_place(described);
  }
  return found->second;
}

ProgressBuilder::Place ProgressBuilder::new_place(const CommOp& op) {
  const Rank rank = job_.ranks.back().state.rank;
  Place place{.part = part_of(*tables_, op, rank)};
  if (place.part != CallPart::other && place.part != CallPart::receive_any) {
    place.channel = channel_of(commlens::channel_of(*tables_, op, rank, place.part));
    place.signature = signature_of(commlens::signature_of(*tables_, op, rank));
  }
  return place;
}

std::size_t ProgressBuilder::channel_of(CallChannel channel) {
  const auto [found, is_new] = channel_ids_.try_emplace(std::move(channel), job_.channels.size());
  if (is_new) {
    job_.channels.push_back(found->first);
    references_.emplace_back();
  }
  return found->second;
}

std::uint32_t ProgressBuilder::signature_of(const CallSignature& signature) {
  const auto [found, is_new] =
      signature_ids_.try_emplace(signature, static_cast<std::uint32_t>(signatures_.size() + 1));
  if (is_new) {
    signatures_.push_back(signature);
  }
  return found->second;
}

void ProgressBuilder::compare(std::size_t channel, std::int64_t number, std::uint32_t signature) {
  Reference& reference = references_[channel];
  std::vector<std::uint32_t>& known = reference.signatures;
  if (known.empty()) {
    reference.first = number;
  }
  const std::int64_t end = reference.first + std::ssize(known);
  const std::int64_t gap = std::max(reference.first - number, number - end);
  if (gap > gaps_left_) {
    return;
  }
  gaps_left_ -= std::max(gap, std::int64_t{0});
  if (number < reference.first) {  // another rank's ring began later
    known.insert(known.begin(), static_cast<std::size_t>(reference.first - number), 0);
    reference.first = number;
  }
  const auto place = static_cast<std::size_t>(number - reference.first);
  if (place >= known.size()) {
    known.resize(place + 1);
  }
  if (known[place] == 0) {
    known[place] = signature;
  } else if (known[place] != signature) {
    std::map<std::int64_t, std::uint32_t>& differing = reference.differing[job_.ranks.back().state.rank];
    differing.try_emplace(number, signature);
    if (differing.size() > Reference::k_most_differing) {
      differing.erase(differing.begin());
    }
  }
}

SeenCall ProgressBuilder::seen(const StatedCall& call, const Place& place, std::int64_t number) const {
  return seen_call(*tables_, job_.ranks.back().state.rank, call, place.part, place.channel, number);
}

std::optional<CallDifference> ProgressBuilder::difference_of(std::size_t channel) const {
  std::set<std::int64_t> numbers;  // that ranks are inside of
  if (!references_[channel].differing.empty()) {
    for (const RankProgress& rank : job_.ranks) {
      for (const SeenCall& call : rank.open) {
        if (call.channel == channel) {
          numbers.insert(call.number);
        }
      }
    }
  }
  for (const std::int64_t number : numbers) {
    CallDifference difference{.channel = channel, .number = number, .sides = sides_of(channel, number)};
    if (difference.sides.size() > 1) {
      return difference;
    }
  }
  return std::nullopt;
}

std::vector<std::pair<CallSignature, std::vector<Rank>>> ProgressBuilder::sides_of(
    std::size_t channel, std::int64_t number) const {
  const Reference& reference = references_[channel];
  const std::int64_t place = number - reference.first;
  if (place < 0 || place >= std::ssize(reference.signatures)) {
    return {};
  }
  const std::uint32_t common = reference.signatures[static_cast<std::size_t>(place)];
  std::vector<std::pair<Rank, const CallSignature*>> calls;
  for (const RankProgress& rank : job_.ranks) {
    const auto entered = rank.entered.find(channel);
    if (!rank.is_known() || entered == rank.entered.end() || entered->second < number) {
      continue;
    }
    const auto own = reference.differing.find(rank.state.rank);
    const bool differs = own != reference.differing.end() && own->second.contains(number);
    const std::uint32_t signature = differs ? own->second.at(number) : common;
    if (signature != 0) {
      calls.emplace_back(rank.state.rank, &signatures_[signature - 1]);
    }
  }
  return commlens::sides_of(calls);
}

void add_unrecorded(JobProgress& job) {
  std::set<Rank> known;
  for (const RankProgress& rank : job.ranks) {
    known.insert(rank.state.rank);
  }
  for (const CallChannel& channel : job.channels) {
    for (const Rank member : channel.members) {
      if (known.insert(member).second) {
        job.ranks.push_back({.state = {.rank = member, .is_recorded = false, .process = {}, .boot = {}}});
      }
    }
  }
  std::sort(job.ranks.begin(), job.ranks.end(),
            [](const RankProgress& a, const RankProgress& b) { return a.state.rank < b.state.rank; });
}

JobProgress progress_of(const JobStates& states) {
  ProgressBuilder builder;
  for (std::size_t row = 0; row < states.ranks().size(); ++row) {
    RankState state = states.ranks()[row];
    const std::optional<RingCalls> ring = states.ring(row);
    state.lost = saturating_sum(state.lost, ring ? ring->lost : 0);
    builder.begin_rank(state, states.tables());
    const auto add = [&](const StatedCall& call) { builder.add(call); };
    if (ring) {
      for (const auto& [op, calls] : ring->before) {
        builder.skip(op, calls);
      }
      std::for_each(ring->calls.begin(), ring->calls.end(), add);
    } else {
      states.visit(row, add);
    }
    builder.end_rank();
  }
  return builder.finish();
}

}  // namespace commlens
