#include "commlens/summary/time_tally.hpp"

#include <algorithm>

#include "commlens/base/sums.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;
using Era = RankTimeTally::Era;

constexpr std::size_t k_at_a_time = 4096;

OverlapTotal nothing() {
  OverlapTotal total;
  total.time.exposed = total.time.overlapped = total.compute = total.idle = nanoseconds(0);
  return total;
}

/// `total` of one rank, summed over `ranks` equal ranks.
OverlapTotal times(OverlapTotal total, std::int64_t ranks) {
  const auto grow = [&](nanoseconds time) { return nanoseconds(saturating_product(time.count(), ranks)); };
  total.iterations *= ranks;
  total.span = grow(total.span);
  total.time.calls = saturating_product(total.time.calls, ranks);
  total.time.sum = grow(total.time.sum);
  total.time.total = grow(total.time.total);
  return total;
}

template <typename Key>
void merge_into(std::map<Key, OverlapTotal>& totals, const Key& key, const OverlapTotal& total) {
  merge(totals.try_emplace(key, nothing()).first->second, total);
}

Era era_of(const IterationOverlap& row) {
  return row.iteration == k_unknown_iteration ? Era::unknown
         : row.iteration == k_init_iteration  ? Era::init
                                              : Era::training;
}

/// Most time first, each with the time of all ranks.
template <typename Key, typename Name>
std::vector<OverlapTotal> sorted(const std::map<Key, OverlapTotal>& totals, nanoseconds span,
                                 const Name& name) {
  std::vector<OverlapTotal> rows;
  for (const auto& [key, total] : totals) {
    rows.push_back(total);
    rows.back().span = span;
    name(rows.back(), key);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const OverlapTotal& a, const OverlapTotal& b) { return a.time.total > b.time.total; });
  return rows;
}

}  // namespace

TimeTally::TimeTally(const CallSource& source, const TimeSelection& selection)
    : source_(source),
      selection_(selection),
      pipeline_ops_(pipeline_ops(source.tables)),
      shape_(source.tables, selection) {}

void TimeTally::add(const CallBlock& block) {
  shape_.add(source_.tables.streams[block.stream].ranks, block.events);
  if (stream_ != block.stream) {
    end_stream();
    stream_ = block.stream;
    const RankRange ranks = source_.tables.streams[block.stream].ranks;
    if (!source_.has_times[block.stream] || (selection_.rank && !ranks.contains(*selection_.rank))) {
      return;
    }
    if (source_.has_compute[block.stream]) {
      again_.push_back(block.stream);
      return;
    }
    const std::optional<Rank> rank = selection_.rank;
    running_.emplace(source_.tables, rank ? RankRange{*rank, *rank} : ranks, pipeline_ops_);
  }
  for (std::size_t at = 0; running_ && at < block.times.size(); ++at) {
    if (selects(selection_, block.events[at].iteration)) {
      running_->add(block.events[at], block.times[at]);
    }
  }
}

void TimeTally::end_stream() {
  if (!running_) {
    return;
  }
  running_->finish();
  if (running_->is_exact()) {
    fold(*running_);
  } else {
    again_.push_back(*stream_);
  }
  running_.reset();
}

void TimeTally::fold(const RankTimeTally& tally) {
  const std::int64_t ranks = tally.ranks().count();
  for (std::size_t era = 0; era < RankTimeTally::k_eras; ++era) {
    const std::optional<RankTimeTally::Sums>& sums = tally.sums()[era];
    if (!sums) {
      continue;
    }
    EraSums& into = eras_[era] ? *eras_[era] : eras_[era].emplace();
    merge_into(into.ranks, tally.ranks(), sums->all);
    for (const auto& [key, total] : sums->ops) {
      merge_into(into.ops, key, times(total, ranks));
    }
    for (const auto& [key, total] : sums->groups) {
      merge_into(into.groups, key, times(total, ranks));
    }
    const OverlapTotal all = times(sums->all, ranks);
    into.span = nanoseconds(saturating_sum(into.span.count(), all.span.count()));
    into.calls = saturating_sum(into.calls, all.time.calls);
  }
  if (tally.bubble()) {
    bubbles_.emplace(tally.ranks(), *tally.bubble());
  }
}

void TimeTally::fold(const std::vector<IterationOverlap>& rows) {
  std::array<std::vector<IterationOverlap>, RankTimeTally::k_eras> by_era;
  for (const IterationOverlap& row : rows) {
    by_era[static_cast<std::size_t>(era_of(row))].push_back(row);
  }
  for (std::size_t era = 0; era < RankTimeTally::k_eras; ++era) {
    if (!by_era[era].empty()) {
      fold(eras_[era] ? *eras_[era] : eras_[era].emplace(), by_era[era]);
    }
  }
}

void TimeTally::fold(EraSums& era, const std::vector<IterationOverlap>& rows) {
  for (const OverlapTotal& total : overlap_by_rank(rows)) {
    merge_into(era.ranks, total.ranks, total);
    const nanoseconds span(saturating_product(total.span.count(), total.ranks.count()));
    era.span = nanoseconds(saturating_sum(era.span.count(), span.count()));
    era.calls = saturating_sum(era.calls, saturating_product(total.time.calls, total.ranks.count()));
  }
  for (const OverlapTotal& total : overlap_by_op(rows)) {
    merge_into(era.ops, {total.kind, total.name}, total);
  }
  for (const OverlapTotal& total : overlap_by_axis(rows)) {
    merge_into(era.groups, {total.axis, total.is_pair, total.group_size}, total);
  }
  era.knows_exposed |= std::any_of(rows.begin(), rows.end(),
                                   [](const IterationOverlap& row) { return row.all.exposed.has_value(); });
}

std::optional<RankStream> TimeTally::read_stream(std::size_t row, std::int64_t most) {
  RankStream stream{source_.tables.streams[row].ranks, {}, {}, {}};
  StreamCursor calls{row};
  for (bool has_more = true; has_more;) {
    const CallSpan some = source_.calls(calls, k_at_a_time);
    has_more = !some.events.empty();
    stream.events.insert(stream.events.end(), some.events.begin(), some.events.end());
    stream.times.insert(stream.times.end(), some.times.begin(), some.times.end());
    if (std::ssize(stream.events) > most) {
      return std::nullopt;
    }
  }
  StreamCursor compute{row};
  for (bool has_more = true; has_more;) {
    const std::span<const ComputeInterval> some = source_.compute(compute);
    has_more = !some.empty();
    stream.compute.insert(stream.compute.end(), some.begin(), some.end());
    if (std::ssize(stream.compute) > 2 * most) {
      return std::nullopt;
    }
  }
  return stream;
}

void TimeTally::add_rows_of(std::size_t row, std::int64_t most) {
  const RankStream* stream = &source_.tables.streams[row];
  std::optional<RankStream> copy;
  if (stream->events.empty() && stream->compute.empty()) {
    copy = read_stream(row, most);
    if (!copy) {
      skipped_ranks_ += selection_.rank ? 1 : stream->ranks.count();
      return;
    }
    stream = &*copy;
  }
  fold(stream_overlap(source_.tables, *stream, selection_));
  for (const PipelineBubble& bubble : stream_bubbles(pipeline_ops_, *stream, selection_)) {
    if (bubble.iteration != k_init_iteration) {
      bubbles_.try_emplace(bubble.ranks, BubbleTotal{.ranks = bubble.ranks}).first->second.add(bubble);
    }
  }
}

OverlapTotals TimeTally::overlap() const {
  const auto era_at = [&](Era era) -> const std::optional<EraSums>& {
    return eras_[static_cast<std::size_t>(era)];
  };
  const std::optional<EraSums>& unknown = era_at(Era::unknown);
  const std::optional<EraSums>& chosen = era_at(Era::training) ? era_at(Era::training)
                                         : unknown             ? unknown
                                                               : era_at(Era::init);
  OverlapTotals totals;
  totals.skipped_ranks = skipped_ranks_;
  if (!chosen) {
    return totals;
  }
  for (const auto& [ranks, total] : chosen->ranks) {
    totals.by_rank.push_back(total);
    totals.by_rank.back().ranks = ranks;
  }
  totals.by_op = sorted(chosen->ops, chosen->span,
                        [](OverlapTotal& row, const auto& key) { std::tie(row.kind, row.name) = key; });
  totals.by_axis = sorted(chosen->groups, chosen->span, [](OverlapTotal& row, const auto& key) {
    std::tie(row.axis, row.is_pair, row.group_size) = key;
  });
  totals.knows_exposed = chosen->knows_exposed;
  if (unknown && &chosen != &unknown) {
    totals.has_skipped = true;
    totals.skipped_calls = unknown->calls;
  }
  return totals;
}

TimeTotals TimeTally::finish(std::int64_t most) {
  end_stream();
  for (const std::size_t stream : again_) {
    add_rows_of(stream, most);
  }
  TimeTotals totals{overlap(), {}};
  for (const auto& [ranks, bubble] : bubbles_) {
    totals.bubbles.by_rank.push_back(bubble);
  }
  totals.bubbles.shape = bubbles_.empty() ? std::nullopt : shape_.shape();
  return totals;
}

TimeTotals time_totals(const Trace& trace, const TimeSelection& selection) {
  const CallSource source = call_source(trace);
  TimeTally tally(source, selection);
  visit_calls(trace, [&](const CallBlock& block) { tally.add(block); });
  return tally.finish(INT64_MAX);
}

}  // namespace commlens
