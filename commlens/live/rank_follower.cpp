#include "commlens/live/rank_follower.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/trace/clock.hpp"
#include "commlens/trace/comm_members.hpp"
#include "commlens/trace/strangers.hpp"
#include "commlens/trace/stream_checks.hpp"

namespace commlens {
namespace {

constexpr std::string_view k_missing_at_end = "record missing at the end of a stream";

std::optional<Times> known_times(const StreamRecord& record) {
  const bool is_timed = record.started_ns != k_no_time && record.duration_ns >= 0;
  return is_timed ? std::optional(times_of(record)) : std::nullopt;
}

/// Whether the numbers of later calls are not known where some were lost so: what was overwritten is counted
/// in the ring.
bool hides_numbers(std::string_view reason) {
  return reason != k_skipped_header && reason != k_skipped_table_line && reason != k_skipped_overwritten;
}

void add_lost(std::map<std::string, std::int64_t>& lost, std::string_view reason, std::int64_t calls) {
  if (calls > 0) {
    std::int64_t& count = lost[std::string(reason)];
    count = saturating_sum(count, calls);
  }
}

}  // namespace

RankFollower::RankFollower(FollowedJob& job, std::size_t row, StreamEntry entry)
    : job_(&job),
      row_(row),
      rank_(entry.ranks.first),
      stream_(entry),
      tables_(entry.tables, job.tables),
      latest_iterations_(job.keeps_times) {}

bool RankFollower::look(std::chrono::nanoseconds now, bool is_final) {
  can_read_ = false;
  if (!error_.empty()) {
    return true;
  }
  is_final_ = is_final;
  not_yet_.clear();
  // The header before the tables: every record that it counts has its rows written by then.
  const StreamFollower::Status stream = stream_.look(job_->directory, is_final);
  if (stream == StreamFollower::Status::absent) {
    not_yet_ = stream_.error();
    return !is_there_;
  }
  const TablesFollower::Status tables = stream == StreamFollower::Status::open
                                            ? tables_.read(job_->directory, is_final)
                                            : TablesFollower::Status::open;
  if (stream == StreamFollower::Status::replaced || tables == TablesFollower::Status::replaced) {
    return false;
  }
  if (tables == TablesFollower::Status::absent && !tables_.error().empty()) {
    not_yet_ = tables_.error();
    return true;
  }
  if (stream == StreamFollower::Status::unusable || tables == TablesFollower::Status::unusable) {
    error_ = stream_.error().empty() ? tables_.error() : stream_.error();
    return true;
  }
  if (tables_.tables().rank.value_or(rank_) != rank_) {
    error_ = fmt::format("{}: these are the tables of rank {}", stream_.entry().tables,
                         tables_.tables().rank->value);
    return true;
  }
  if (!is_there_) {
    is_there_ = true;
    job_->late.arrive(row_);
    moved_ = now;
  }
  if (const std::uint64_t dropped = stream_.dropped_full() + stream_.dropped_late(); dropped != dropped_) {
    dropped_ = dropped;
    lossy_from_ = lossy_from_.value_or(iteration_);
  }
  if (!catch_up(now)) {
    return true;
  }
  read_open(now);
  can_read_ = true;
  return true;
}

/// Whether there is more to read now.
bool RankFollower::read_some(std::chrono::nanoseconds now) {
  for (std::size_t block = 0; can_read_ && block < k_blocks_a_turn; ++block) {
    const RingPart part = stream_.next(job_->block);
    if (part.overwritten > 0) {  // the next look catches up
      can_read_ = false;
      break;
    }
    const std::span<const StreamRecord> records = part.records;
    if (stream_.is_ring() && is_final_ && records.empty() && part.asked > 0) {
      lose(k_missing_at_end, static_cast<std::int64_t>(part.asked));
      stream_.take(part.asked);
      continue;
    }
    std::size_t taken = 0;
    while (taken < records.size() && take(stream_.cursor() + taken, records[taken], now)) {
      ++taken;
    }
    stream_.take(taken);
    is_caught_up_ = is_caught_up_ || records.empty();
    can_read_ = taken == records.size() && !records.empty();
  }
  if (!can_read_ && lossy_from_) {
    latest_iterations_.lose_from(*std::exchange(lossy_from_, std::nullopt));
  }
  return can_read_;
}

/// Whether what is written up to a record, and not there, has been waited for so long. What was written later
/// has a wait of its own.
bool RankFollower::has_waited(std::uint64_t slot, std::chrono::nanoseconds now,
                              std::chrono::nanoseconds patience) {
  if (!waits_since_ || slot >= waits_until_) {
    waits_since_ = now;
    waits_until_ = stream_.written();
  }
  return is_final_ || now - *waits_since_ >= patience;
}

/// False when the record cannot be read yet.
bool RankFollower::take(std::uint64_t slot, const StreamRecord& record, std::chrono::nanoseconds now) {
  std::string_view reason;
  if (record.op_number == 0) {
    reason = k_skipped_zeros;
  } else if (is_impossible(record)) {
    lose(k_skipped_impossible_record);
    return true;
  } else if (const Facts* const facts = facts_of(record.op_number)) {
    if (!facts->is_known) {
      lose(k_skipped_undescribed);
      return true;
    }
    if (facts->has_strangers) {  // they make themselves known at about the same time, or never
      if (!has_waited(slot, now, k_patience_for_strangers)) {
        return false;
      }
      facts_[record.op_number - 1].has_strangers = false;
    }
    enter(slot, record, *facts, now);
    return true;
  } else {
    reason = k_skipped_undescribed;
  }
  if (!has_waited(slot, now, k_patience)) {
    return false;
  }
  lose(reason);
  return true;
}

/// Null: the tables have no such row yet. `is_known` is false where it was lost.
const RankFollower::Facts* RankFollower::facts_of(std::uint32_t number) {
  const std::vector<OpId>& ops = tables_.ops();
  if (number > ops.size()) {
    return nullptr;
  }
  if (facts_.size() < ops.size()) {
    facts_.resize(ops.size());
  }
  Facts& facts = facts_[number - 1];
  const OpId op = ops[number - 1];
  if (op != k_lost_op && (!facts.is_known || facts.has_strangers)) {
    facts = new_facts(op);
  }
  return &facts;
}

/// Members that NCCL did not name are looked up again until they are known.
RankFollower::Facts RankFollower::new_facts(OpId op) {
  Trace& tables = job_->tables;
  std::vector<OpId> resolved = {op};
  resolve_strangers(job_->path, tables, resolved);
  Facts facts;
  facts.is_known = true;
  facts.op = resolved.front();
  const CommOp& described = tables.op(facts.op);
  if (tables.groups.knows_members(described.group)) {
    const std::vector<Rank> members = tables.groups.members(described.group, rank_);
    facts.has_strangers =
        !is_point_to_point(described.kind) &&
        std::any_of(members.begin(), members.end(), [](Rank member) { return member >= k_first_stranger; });
  }
  facts.place = job_->progress.place_of(numbers_, rank_, facts.op);
  facts.row = job_->tally.row_of(tables, described, tables.job_ranks());
  facts.route = job_->late.route_of(row_, facts.op,
                                    facts.place.lane == nullptr ? k_no_channel : facts.place.lane->channel);
  facts.message = message_bytes(described);
  facts.wire = wire_bytes(described.kind, std::min(facts.message, Bytes{INT64_MAX / 2}),
                          std::max<std::int64_t>(tables.groups.size(described.group), 1));
  return facts;
}

void RankFollower::enter(std::uint64_t slot, const StreamRecord& record, const Facts& facts,
                         std::chrono::nanoseconds now) {
  moved_ = now;
  waits_since_.reset();
  note_iteration(record);
  const StatedCall call = stated_call(facts.op, record);
  if (call.state == CallState::cancelled) {
    return;
  }
  if (job_->keeps_iterations && call.state != CallState::failed) {
    latest_iterations_.add(slot, {facts.op, record.iteration, record.micro_batch}, known_times(record));
  }
  const std::int64_t number = numbers_.enter(facts.place);
  if (call.state == CallState::under_way) {
    if (numbers_.open().size() < RankProgress::most(facts.place.is_blocking)) {
      numbers_.open().push_back(
          {.slot = slot, .call = call, .place = facts.place, .number = number, .seen = now, .row_since = {}});
    } else {
      ++unfollowed_;
      latest_iterations_.lose();
    }
    return;
  }
  numbers_.set_last(slot, call, facts.place, number);
  if (record.started_ns != k_no_time && record.duration_ns == k_no_row) {
    lose(k_skipped_tables_full);
  } else if (call.state == CallState::finished) {
    finish(record, facts, number);
  }
}

/// Whether the calls of other ranks with which a call belongs together are known: after some were
/// overwritten, those of the same iteration, where it is whole. Of a program without marks, by their numbers.
bool RankFollower::is_comparable(const StreamRecord& record) {
  if (!is_cut_) {
    return true;
  }
  cut_iteration_ = cut_iteration_.value_or(record.iteration);
  return record.iteration >= 0 ? record.iteration > *cut_iteration_ : *cut_iteration_ < 0;
}

/// Reads the calls under way again.
void RankFollower::read_open(std::chrono::nanoseconds now) {
  std::vector<LiveNumbers::Open>& open = numbers_.open();
  std::size_t at = 0;
  std::vector<bool> is_over(open.size());
  while (at < open.size()) {
    const std::uint64_t first = open[at].slot;
    std::size_t end = at;
    if (first < stream_.first()) {  // end_unseen() has looked at it
      ++at;
      continue;
    }
    while (end < open.size() && open[end].slot - first < RecordBlock::k_records &&
           stream_.are_together(first, open[end].slot)) {
      ++end;
    }
    const std::size_t span = static_cast<std::size_t>(open[end - 1].slot - first) + 1;
    const RingPart part = stream_.from(first, span, job_->block);
    for (; at < end; ++at) {
      const auto row = static_cast<std::size_t>(open[at].slot - first);
      is_over[at] = row >= part.overwritten && row - part.overwritten < part.records.size() &&
                    update(open[at], part.records[row - part.overwritten], now);
    }
  }
  std::size_t kept = 0;
  for (std::size_t row = 0; row < open.size(); ++row) {
    if (!is_over[row]) {
      if (kept != row) {
        open[kept] = std::move(open[row]);
      }
      ++kept;
    }
  }
  open.resize(kept);
}

/// Whether the call is over.
bool RankFollower::update(LiveNumbers::Open& call, const StreamRecord& record, std::chrono::nanoseconds now) {
  if (record.started_ns == k_no_time || record.duration_ns == k_unfinished || record.op_number == 0 ||
      is_impossible(record)) {
    call.call.is_on_device = call.call.is_on_device || is_on_device(record);
    return false;
  }
  moved_ = now;
  const Facts* const facts = facts_of(record.op_number);
  const bool is_lost = facts == nullptr || !facts->is_known || record.duration_ns == k_no_row;
  if (is_lost) {
    call.row_since = call.row_since.value_or(now);
    if (facts == nullptr && !is_final_ && now - *call.row_since < k_patience) {
      return false;
    }
    latest_iterations_.lose_from(call.call.iteration);
    lose(record.duration_ns == k_no_row ? k_skipped_tables_full : k_skipped_undescribed);
    numbers_.set_last(call.slot, call.call, call.place, call.number);
    return true;
  }
  const StatedCall now_it_is = stated_call(facts->op, record);
  if (now_it_is.state == CallState::finished) {
    latest_iterations_.finish(record.iteration, call.slot, facts->op, known_times(record));
  } else {
    latest_iterations_.withdraw(record.iteration, call.slot);
  }
  if (now_it_is.state == CallState::cancelled) {
    numbers_.withdraw(call);
    return true;
  }
  numbers_.replace(call, facts->op, facts->place);
  numbers_.set_last(call.slot, now_it_is, call.place, call.number);
  if (now_it_is.state == CallState::finished) {
    finish(record, *facts, call.number);
  }
  return true;
}

void RankFollower::finish(const StreamRecord& record, const Facts& facts, std::int64_t number) {
  const bool has_time = record.started_ns != k_no_time;
  const std::chrono::nanoseconds duration(record.duration_ns);
  job_->tally.add(facts.row, facts.message, has_time ? &duration : nullptr, is_caught_up_);
  ++sums_.calls;
  sums_.message = saturating_sum(sums_.message, facts.message);
  sums_.wire = saturating_sum(sums_.wire, facts.wire);
  if (has_time) {
    sums_.time = std::chrono::nanoseconds(saturating_sum(sums_.time.count(), duration.count()));
    if (number == 1 && unknown_ == 0) {
      job_->tally.add_first(facts.row, duration);
    }
    if (is_comparable(record)) {
      job_->late.add(row_, facts.route, times_of(record), record.iteration, number);
    }
  }
  if (is_caught_up_) {
    recent_.add(job_->tally.second(), facts.message, has_time ? duration : std::chrono::nanoseconds{});
  }
}

/// An iteration lasts from its first call to that of the next.
void RankFollower::note_iteration(const StreamRecord& record) {
  if (record.iteration == iteration_) {
    return;
  }
  const bool is_next = iteration_ >= 0 && record.iteration > iteration_;
  if (is_next && iteration_start_ns_ && record.started_ns >= *iteration_start_ns_) {
    steps_.add(std::chrono::nanoseconds(record.started_ns - *iteration_start_ns_));
  }
  if (record.iteration >= 0 && (is_next || iteration_ < 0)) {
    iteration_start_ns_ = record.started_ns == k_no_time ? std::nullopt : std::optional(record.started_ns);
  }
  iteration_ = iteration_ == k_unknown_iteration ? record.iteration : std::max(iteration_, record.iteration);
}

Iteration RankFollower::whole_iteration() const {
  constexpr auto k_latest = static_cast<Iteration>(LatestIterations::k_most_iterations);
  const bool has_ended = is_done() && tables_.tables().closing.has_value();
  Iteration whole = iteration_ == k_unknown_iteration || has_ended ? iteration_ : iteration_ - 1;
  for (const LiveNumbers::Open& open : numbers_.open()) {
    // A request that is open for long is none of its iteration any more.
    if (open.call.iteration >= 0 && iteration_ - open.call.iteration < k_latest) {
      whole = std::min(whole, open.call.iteration - 1);
    }
  }
  return whole;
}

void RankFollower::lose(std::string_view reason, std::int64_t calls) {
  latest_iterations_.lose();
  const auto found = lost_.find(reason);
  std::int64_t& count = found == lost_.end() ? lost_[std::string(reason)] : found->second;
  count = saturating_sum(count, calls);
}

/// All but what the rank says at its end.
std::map<std::string, std::int64_t> RankFollower::lost_so_far() const {
  std::map<std::string, std::int64_t> lost(lost_.begin(), lost_.end());
  if (!is_there_) {
    return lost;
  }
  add_lost(lost, k_skipped_disk_full, static_cast<std::int64_t>(stream_.dropped_full()));
  add_lost(lost, k_skipped_recorder_late, static_cast<std::int64_t>(stream_.dropped_late()));
  add_lost(lost, k_skipped_header, stream_.has_lost_header() ? 1 : 0);
  add_lost(lost, k_skipped_table_line, tables_.lost_lines());
  if (is_final_) {
    const std::uint64_t missing = std::min<std::uint64_t>(stream_.missing_at_end(), INT64_MAX);
    add_lost(lost, k_missing_at_end, static_cast<std::int64_t>(missing));
  }
  return lost;
}

std::map<std::string, std::int64_t> RankFollower::lost() const {
  std::map<std::string, std::int64_t> lost = lost_so_far();
  if (const std::optional<RankClosing>& closing = tables_.tables().closing; closing && is_there_) {
    for (const auto& [reason, calls] : closing->skipped) {
      add_lost(lost, reason, calls);
    }
  }
  return lost;
}

std::int64_t RankFollower::lost_records() const {
  std::int64_t all = 0;
  for (const auto& [reason, calls] : lost_so_far()) {
    all = saturating_sum(all, hides_numbers(reason) ? calls : 0);
  }
  return all;
}

std::chrono::nanoseconds RankFollower::pause_left(const PollTime& time) {
  using Time = std::chrono::nanoseconds;
  const RankTables& tables = tables_.tables();
  if (is_there_ && tables.pause != pause_) {
    pause_ = tables.pause;
    const bool is_clock_here = !tables.clock.boot.empty() && tables.clock.boot == boot_id();
    const Time now_there(time.unix_ns - tables.clock.wall_offset.count());
    const Time age =
        is_clock_here || !has_looked_for_pause_ ? std::max<Time>(now_there - pause_->at, Time{}) : Time{};
    pause_ends_ = time.steady + pause_->length - std::min<Time>(age, pause_->length);
  }
  has_looked_for_pause_ = has_looked_for_pause_ || is_there_;
  return std::max<Time>(pause_ends_ - time.steady, Time{});
}

std::int64_t RankFollower::unread() const {
  const std::uint64_t missing = is_final_ ? stream_.missing_at_end() : 0;
  const std::uint64_t written = stream_.written() - std::min(stream_.written(), missing);
  return static_cast<std::int64_t>(
      std::min<std::uint64_t>(written - std::min(written, stream_.cursor()), INT64_MAX));
}

RankState RankFollower::state() const {
  const RankTables& tables = tables_.tables();
  RankState state{.rank = rank_,
                  .is_recorded = is_there_ && error_.empty(),
                  .process = tables.process,
                  .boot = tables.clock.boot,
                  .has_begun_to_end = tables.has_begun_to_end,
                  .has_ended = tables.closing.has_value()};
  for (const auto& [reason, calls] : lost()) {
    state.lost = saturating_sum(state.lost, hides_numbers(reason) ? calls : 0);
  }
  state.lost = saturating_sum(state.lost, unread());
  state.lost = saturating_sum(state.lost, unfollowed_);
  state.lost = saturating_sum(state.lost, unknown_);
  return state;
}

}  // namespace commlens
