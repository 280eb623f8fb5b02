// What a follower does where a ring has written over calls that it had not read, or that it had seen begin.
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "commlens/base/sums.hpp"
#include "commlens/live/rank_follower.hpp"
#include "commlens/trace/stream_checks.hpp"

namespace commlens {

/// Of a ring: what was overwritten before it was read is counted, and the numbers of the calls after it are
/// taken from the file. False when that cannot be now.
bool RankFollower::catch_up(std::chrono::nanoseconds now) {
  const std::uint64_t first = stream_.first();
  const std::vector<LiveNumbers::Open>& open = numbers_.open();
  const bool is_behind = stream_.cursor() < first;
  const bool has_lapped = !open.empty() && open.front().slot < first;
  if (!is_behind && !has_lapped) {
    behind_since_.reset();
    return true;
  }
  const std::vector<std::uint32_t>& lanes = tables_.lanes();
  const std::size_t count =
      lanes.empty() ? 0 : std::size_t{*std::max_element(lanes.begin(), lanes.end())} + 1;
  const RingRemains remains = stream_.remains(tables_.lost_lines() == 0 ? count : 0);
  behind_since_ = behind_since_.value_or(now);
  if (!remains.is_whole && !is_final_ && now - *behind_since_ < k_patience) {
    return !is_behind;
  }
  behind_since_.reset();
  end_unseen(remains);
  if (is_behind) {
    renumber(remains, now);
  }
  return true;
}

/// Calls under way that were overwritten have ended where the file does not keep them. What became of
/// messages that do not block is not known then: cancelled, or from another rank than it seemed.
void RankFollower::end_unseen(const RingRemains& remains) {
  if (!remains.is_whole) {
    ++unknown_;
  }
  std::vector<LiveNumbers::Open>& open = numbers_.open();
  const auto has_ended = [&](const LiveNumbers::Open& call) {
    const bool is_kept = std::any_of(remains.lapped.begin(), remains.lapped.end(),
                                     [&](const LappedCall& lapped) { return lapped.index == call.slot; });
    if (call.slot >= std::max(remains.first, stream_.first()) || is_kept) {
      return false;
    }
    lose(k_skipped_overwritten);
    unknown_ += is_point_to_point(job_->tables.op(call.call.op).kind) && !call.place.is_blocking ? 1 : 0;
    numbers_.set_last(call.slot, call.call, call.place, call.number);
    return true;
  };
  std::erase_if(open, has_ended);
}

void RankFollower::renumber(const RingRemains& remains, std::chrono::nanoseconds now) {
  const std::uint64_t next = std::max(remains.first, stream_.first());
  const std::uint64_t read = stream_.cursor();
  lose(k_skipped_overwritten, static_cast<std::int64_t>(std::min<std::uint64_t>(next - read, INT64_MAX)));
  stream_.skip_to(next);
  unknown_ = saturating_sum(unknown_,
                            static_cast<std::int64_t>(std::min<std::uint64_t>(remains.unknown, INT64_MAX)));
  unknown_ += tables_.lost_lines() == 0 ? 0 : 1;
  is_cut_ = true;
  job_->late.cut(row_);
  cut_iteration_.reset();
  std::set<const LiveNumbers::Lane*> numbered;
  std::vector<bool> is_done(remains.counts.size());
  for (std::size_t row = 0; remains.is_whole && row < tables_.lanes().size(); ++row) {
    const std::uint32_t lane = tables_.lanes()[row];
    const Facts* const facts = facts_of(static_cast<std::uint32_t>(row + 1));
    if (lane >= is_done.size() || is_done[lane] || facts == nullptr || !facts->is_known) {
      continue;
    }
    is_done[lane] = true;
    numbers_.set_entered(facts->place, static_cast<std::int64_t>(remains.counts[lane]));
    // Of two lanes of one channel it is not known which of both a call under way is counted in.
    const bool is_first = facts->place.lane == nullptr || numbered.insert(facts->place.lane).second;
    unknown_ += is_first ? 0 : 1;
  }
  std::vector<LiveNumbers::Open>& open = numbers_.open();
  for (const LappedCall& lapped : remains.lapped) {
    const std::uint32_t row = lapped.record.op_number;
    const Facts* const facts = row == 0 ? nullptr : facts_of(row);
    if (lapped.index < read) {  // it is followed already
      continue;
    }
    if (facts == nullptr || !facts->is_known || is_impossible(lapped.record)) {
      ++unknown_;
      continue;
    }
    const std::int64_t number = facts->place.lane == nullptr ? 0 : static_cast<std::int64_t>(lapped.number);
    open.push_back({.slot = lapped.index,
                    .call = stated_call(facts->op, lapped.record),
                    .place = facts->place,
                    .number = number,
                    .seen = now,
                    .row_since = {}});
  }
  std::sort(open.begin(), open.end(),
            [](const LiveNumbers::Open& a, const LiveNumbers::Open& b) { return a.slot < b.slot; });
}

}  // namespace commlens
