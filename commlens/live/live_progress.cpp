#include "commlens/live/live_progress.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "commlens/live/call_signature.hpp"

namespace commlens {
namespace {

/// The signature that a rank's call of a number had; 0: it is not remembered, or not made.
std::uint32_t remembered(const LiveNumbers::Lane& lane, std::int64_t number) {
  constexpr auto size = static_cast<std::int64_t>(LiveNumbers::k_remembered);
  const bool is_there = number > 0 && number <= lane.entered && number > lane.entered - size;
  const auto place = static_cast<std::size_t>(number % size);
  return is_there && place < lane.signatures.size() ? lane.signatures[place] : 0;
}

}  // namespace

std::int64_t LiveNumbers::enter(const Place& place) {
  ++calls_;
  if (place.lane == nullptr) {
    return 0;
  }
  Lane& lane = *place.lane;
  ++lane.entered;
  if (place.part == CallPart::collective) {
    const std::size_t row = static_cast<std::size_t>(lane.entered) % k_remembered;
    if (row >= lane.signatures.size()) {
      lane.signatures.resize(row + 1);
    }
    lane.signatures[row] = place.signature;
  }
  return lane.entered;
}

void LiveNumbers::set_entered(const Place& place, std::int64_t number) {
  if (place.lane != nullptr) {
    place.lane->entered = number;
    place.lane->signatures.clear();
  }
}

void LiveNumbers::withdraw(const Open& call) {
  --calls_;
  if (call.place.lane == nullptr) {
    return;
  }
  Lane& lane = *call.place.lane;
  for (std::int64_t number = call.number; number < lane.entered && !lane.signatures.empty(); ++number) {
    const auto row = static_cast<std::size_t>(number) % k_remembered;
    const auto next = static_cast<std::size_t>(number + 1) % k_remembered;
    if (std::max(row, next) < lane.signatures.size()) {
      lane.signatures[row] = lane.signatures[next];
    }
  }
  --lane.entered;
  const auto move = [&](Open& other) {
    other.number -= other.place.lane == call.place.lane && other.number > call.number ? 1 : 0;
  };
  std::for_each(open_.begin(), open_.end(), move);
  if (last_) {
    move(*last_);
  }
}

// Only messages change so, whose signatures are not remembered.
void LiveNumbers::replace(Open& call, OpId op, const Place& place) {
  if (place.lane != call.place.lane) {
    const std::int64_t calls = calls_;
    withdraw(call);
    std::int64_t later = 0;
    const auto move = [&](Open& other) {
      if (other.place.lane == place.lane && other.slot > call.slot) {
        ++other.number;
        ++later;
      }
    };
    if (place.lane != nullptr) {
      std::for_each(open_.begin(), open_.end(), move);
      if (last_) {
        move(*last_);
      }
    }
    call.number = enter(place);
    call.number -= call.number == 0 ? 0 : later;
    calls_ = calls;
  }
  call.call.op = op;
  call.place = place;
}

void LiveNumbers::set_last(std::uint64_t slot, const StatedCall& call, const Place& place,
                           std::int64_t number) {
  if (!last_ || slot >= last_->slot) {
    last_ = Open{.slot = slot, .call = call, .place = place, .number = number, .seen = {}, .row_since = {}};
  }
}

std::size_t LiveProgress::channel_id(CallChannel channel) {
  const auto [found, is_new] = channel_ids_.try_emplace(std::move(channel), channels_.size());
  if (is_new) {
    channels_.push_back(found->first);
  }
  return found->second;
}

std::uint32_t LiveProgress::signature_id(const CallSignature& signature) {
  const auto [found, is_new] =
      signature_ids_.try_emplace(signature, static_cast<std::uint32_t>(signatures_.size() + 1));
  if (is_new) {
    signatures_.push_back(signature);
  }
  return found->second;
}

LiveNumbers::Place LiveProgress::place_of(LiveNumbers& numbers, Rank rank, OpId op) {
  const CommOp& described = tables_.op(op);
  LiveNumbers::Place place{.part = part_of(tables_, described, rank),
                           .is_blocking = described.blocking.value_or(false)};
  if (place.part != CallPart::other && place.part != CallPart::receive_any) {
    const std::size_t channel = channel_id(channel_of(tables_, described, rank, place.part));
    LiveNumbers::Lane& lane = numbers.lanes_[channel];
    lane.channel = channel;
    place.lane = &lane;
    place.signature = signature_id(signature_of(tables_, described, rank));
  }
  return place;
}

SeenCall LiveProgress::seen(Rank rank, const LiveNumbers::Open& call) const {
  const std::size_t channel = call.place.lane == nullptr ? k_no_channel : call.place.lane->channel;
  return seen_call(tables_, rank, call.call, call.place.part, channel, call.number);
}

JobProgress LiveProgress::progress(const std::vector<RankState>& states, const Numbers& numbers) const {
  JobProgress job;
  job.channels = channels_;
  for (std::size_t row = 0; row < states.size(); ++row) {
    RankProgress& rank = job.ranks.emplace_back();
    rank.state = states[row];
    if (numbers[row] == nullptr) {
      continue;
    }
    const LiveNumbers& its = *numbers[row];
    rank.calls = its.calls_;
    for (const auto& [channel, lane] : its.lanes_) {
      if (lane.entered > 0) {
        rank.entered[channel] = lane.entered;
      }
    }
    for (const LiveNumbers::Open& call : its.open_) {
      rank.open.push_back(seen(rank.state.rank, call));
    }
    if (its.last_) {
      rank.last = seen(rank.state.rank, *its.last_);
      rank.has_last_failed = its.last_->call.state == CallState::failed;
    }
  }
  job.differences = differences(job, numbers);
  add_unrecorded(job);
  return job;
}

/// As ProgressBuilder finds them: of calls that a rank is inside of, the first of each channel.
std::vector<CallDifference> LiveProgress::differences(const JobProgress& job, const Numbers& numbers) const {
  std::set<std::pair<std::size_t, std::int64_t>> inside;
  std::map<Rank, std::size_t> rows;
  for (std::size_t row = 0; row < job.ranks.size(); ++row) {
    rows[job.ranks[row].state.rank] = row;
    for (const SeenCall& call : job.ranks[row].open) {
      if (call.part == CallPart::collective) {
        inside.emplace(call.channel, call.number);
      }
    }
  }
  std::vector<CallDifference> differences;
  for (const auto& [channel, number] : inside) {
    if (!differences.empty() && differences.back().channel == channel) {
      continue;
    }
    std::vector<std::pair<Rank, const CallSignature*>> calls;
    for (const Rank member : channels_[channel].members) {
      const auto row = rows.find(member);
      if (row == rows.end() || numbers[row->second] == nullptr || !job.ranks[row->second].is_known()) {
        continue;
      }
      const auto lane = numbers[row->second]->lanes_.find(channel);
      const std::uint32_t signature =
          lane == numbers[row->second]->lanes_.end() ? 0 : remembered(lane->second, number);
      if (signature != 0) {
        calls.emplace_back(member, &signatures_[signature - 1]);
      }
    }
    std::sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    CallDifference difference{.channel = channel, .number = number, .sides = sides_of(calls)};
    if (difference.sides.size() > 1) {
      differences.push_back(std::move(difference));
    }
  }
  return differences;
}

}  // namespace commlens
