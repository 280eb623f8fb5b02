#include "commlens/summary/call_tally.hpp"

#include <algorithm>

#include "commlens/comm/volume.hpp"
#include "commlens/summary/breakdown.hpp"
#include "commlens/summary/node_share.hpp"
#include "commlens/trace/logger_view.hpp"

namespace commlens {
namespace {

std::size_t place(auto id) { return static_cast<std::size_t>(id); }

}  // namespace

void RowTally::merge(const RowTally& other) {
  calls = saturating_sum(calls, other.calls);
  smallest = std::min(smallest, other.smallest);
  largest = std::max(largest, other.largest);
  message = saturating_sum(message, other.message);
  moved = saturating_sum(moved, other.moved);
  timed_moved = saturating_sum(timed_moved, other.timed_moved);
  for (const auto& [share, bytes] : other.crossing) {
    crossing[share] = saturating_sum(crossing[share], bytes);
  }
  time.merge(other.time);
}

void CallTally::add(const CallBlock& block) {
  if (stream_ != block.stream || tables_ != &block.tables) {
    end_stream();
    begin_stream(block);
  }
  if (!is_chosen_) {
    return;
  }
  const std::span<const CommEvent> events = block.events;
  for (std::size_t begin = 0; begin < events.size();) {
    std::size_t end = begin + 1;
    while (end < events.size() && events[end].iteration == events[begin].iteration) {
      ++end;
    }
    add_run(block.tables, {events.subspan(begin, end - begin),
                           block.times.empty() ? block.times : block.times.subspan(begin, end - begin)});
    begin = end;
  }
}

void CallTally::begin_stream(const CallBlock& block) {
  stream_ = block.stream;
  tables_ = &block.tables;
  members_ = block.tables.streams[block.stream].ranks;
  is_chosen_ = !options_.rank || members_.contains(*options_.rank);
  if (!is_chosen_) {
    return;
  }
  if (options_.rank) {
    members_ = {*options_.rank, *options_.rank};
  }
  learn_ops(block.tables);
  met_groups_.assign(block.tables.groups.count(), false);
}

void CallTally::learn_ops(const Trace& tables) {
  const std::vector<CommOp>& ops = tables.ops();
  while (facts_.size() < ops.size()) {
    facts_.push_back(facts_of(tables, ops[facts_.size()]));
  }
  ops_.resize(ops.size());
  cells_.resize(ops.size());
}

OpFacts CallTally::facts_of(const Trace& tables, const CommOp& op) {
  RowKey key;
  key.kind = op.kind;
  key.name = op.kind == CommKind::other ? op.name : NameId{};
  key.axis = axis_in(tables, op, tables.job_ranks());
  key.group_size = tables.groups.size(op.group);
  if (options_.by_phase) {
    key.phase = op.phase;
  }
  const Bytes moved = message_bytes(op);
  const bool is_logged = tables.provenance.accounting == Accounting::comms_logger;
  const Bytes message = is_logged ? logged_bytes(op) : moved;
  if (options_.by_size) {
    key.size = message;
  }
  if (options_.by_site) {
    key.site = op.site;
  }
  const auto [found, added] = key_rows_.try_emplace(key, static_cast<std::uint32_t>(keys_.size()));
  if (added) {
    keys_.push_back(key);
  }
  return {message, moved, found->second, op.group};
}

bool CallTally::is_wanted(Iteration iteration) const {
  return !options_.iterations ||
         (iteration >= options_.iterations->first && iteration <= options_.iterations->second);
}

void CallTally::add_run(const Trace& tables, const CallRun& run) {
  const Iteration iteration = run.events.front().iteration;
  if (iteration >= 0 && !cold_) {
    cold_ = iteration;
  }
  if (!is_wanted(iteration)) {
    mark_groups(run.events);
    return;
  }
  has_calls_ = true;
  enter(iteration);
  count(tables, run);
}

void CallTally::enter(Iteration iteration) {
  if (slice_ && iteration_ == iteration) {
    return;
  }
  iteration_ = iteration;
  Slice slice;
  if (iteration != k_unknown_iteration) {
    iterations_.insert(iteration);
    slice.stage = iteration < 0 ? Stage::init : iteration == cold_ ? Stage::cold : Stage::warm;
  }
  if (slice.stage == Stage::cold) {
    has_cold_calls_ = true;
    cold_iterations_.insert(iteration);
  } else if (slice.stage == Stage::warm) {
    warm_iterations_.insert(iteration);
  }
  if (options_.by_iteration) {
    slice.iteration = iteration;
  }
  if (slice_ != slice) {
    fold();
    slice_ = slice;
    rows_ = &slices_[slice];
  }
}

void CallTally::count(const Trace& tables, const CallRun& run) {
  const std::int64_t ranks = members_.count();
  for (std::size_t at = 0; at < run.events.size(); ++at) {
    const OpId op = run.events[at].op;
    const Times* const times = run.times.empty() ? nullptr : &run.times[at];
    Cell& cell = cells_[place(op)];
    if (cell.calls == 0) {
      meet(tables, op, times);
    }
    ++cell.calls;
    if (times != nullptr) {
      const std::chrono::nanoseconds duration = times->finished - times->started;
      ++cell.timed;
      cell.time = saturating_sum(cell.time, duration.count());
      cell.row->time.add(duration, ranks);
    }
  }
}

/// The first call of an op in a slice: finds its row, and checks whether it is the first one on its group.
void CallTally::meet(const Trace& tables, OpId op, const Times* times) {
  const OpFacts& facts = facts_[place(op)];
  cells_[place(op)].row = &(*rows_)[facts.row];
  touched_.push_back(op);
  if (met_groups_[place(facts.group)]) {
    return;
  }
  met_groups_[place(facts.group)] = true;
  RowKey key = keys_[facts.row];
  key.phase.reset();
  key.size.reset();
  key.site.reset();
  if (tables.groups.size(facts.group) <= 0 || key.axis == Axis::self) {
    return;  // not known, or no other member to connect to
  }
  FirstTally& first = first_calls_[key];
  const std::int64_t ranks = members_.count();
  first.calls = saturating_sum(first.calls, ranks);
  if (times != nullptr) {
    const std::chrono::nanoseconds duration = times->finished - times->started;
    first.time.add(duration, ranks);
    OpTally& tally = ops_[place(op)];
    tally.first_timed = saturating_sum(tally.first_timed, ranks);
    const std::int64_t time = saturating_product(duration.count(), ranks);
    tally.first_time = std::chrono::nanoseconds(saturating_sum(tally.first_time.count(), time));
  }
}

void CallTally::mark_groups(std::span<const CommEvent> events) {
  for (const CommEvent& event : events) {
    met_groups_[place(facts_[place(event.op)].group)] = true;
  }
}

void CallTally::fold() {
  const std::int64_t ranks = members_.count();
  for (const OpId op : touched_) {
    Cell& cell = cells_[place(op)];
    RowTally& row = *cell.row;
    const OpFacts& facts = facts_[place(op)];
    const std::int64_t calls = saturating_product(cell.calls, ranks);
    const std::int64_t timed = saturating_product(cell.timed, ranks);
    const Bytes moved = saturating_product(facts.moved, calls);
    row.calls = saturating_sum(row.calls, calls);
    row.smallest = std::min(row.smallest, facts.message);
    row.largest = std::max(row.largest, facts.message);
    row.message = saturating_sum(row.message, saturating_product(facts.message, calls));
    row.moved = saturating_sum(row.moved, moved);
    row.timed_moved = saturating_sum(row.timed_moved, saturating_product(facts.moved, timed));
    fold_crossing(row, place(op), moved);
    OpTally& tally = ops_[place(op)];
    tally.calls = saturating_sum(tally.calls, calls);
    tally.timed_calls = saturating_sum(tally.timed_calls, timed);
    added_durations_ += cell.timed;
    const std::int64_t time = saturating_product(cell.time, ranks);
    tally.time = std::chrono::nanoseconds(saturating_sum(tally.time.count(), time));
    cell = {};
  }
  touched_.clear();
  if (added_durations_ >= k_exact_samples) {
    limit_memory();
  }
}

/// There may be many rows by iteration, each with few durations: the sum of all durations is limited.
void CallTally::limit_memory() {
  added_durations_ = 0;
  std::int64_t held = 0;
  for (const auto& [slice, rows] : slices_) {
    for (const auto& [key, row] : rows) {
      held += row.time.held();
    }
  }
  if (held <= k_most_held_samples) {
    return;
  }
  for (auto& [slice, rows] : slices_) {
    for (auto& [key, row] : rows) {
      row.time.save_memory();
    }
  }
}

void CallTally::fold_crossing(RowTally& row, std::size_t op, Bytes moved) {
  if (options_.ranks_per_node <= 0) {
    return;
  }
  const GroupId group = facts_[op].group;
  const CommKind kind = keys_[facts_[op].row].kind;
  const auto [found, added] = shares_.try_emplace({group, kind}, Fraction{});
  if (added) {
    found->second = inter_node_share(tables_->groups, group, kind, members_, options_.ranks_per_node);
  }
  Bytes& crossing = row.crossing[{found->second.numerator, found->second.denominator}];
  crossing = saturating_sum(crossing, moved);
}

void CallTally::finish(const Trace& tables) {
  tables_ = &tables;
  end_stream();
}

void CallTally::end_stream() {
  fold();
  ranks_ += has_calls_ ? members_.count() : 0;
  cold_ranks_ += has_cold_calls_ ? members_.count() : 0;
  stream_.reset();
  has_calls_ = false;
  has_cold_calls_ = false;
  cold_.reset();
  shares_.clear();
  iteration_.reset();
  slice_.reset();
  rows_ = nullptr;
}

}  // namespace commlens
