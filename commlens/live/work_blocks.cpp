#include "commlens/live/work_blocks.hpp"

#include <algorithm>
#include <utility>

namespace commlens {
namespace {

std::chrono::nanoseconds length_of(const BlockComparison::Part& work) {
  return std::chrono::nanoseconds(work.length_ns());
}

}  // namespace

void LatestBlocks::add(std::int64_t label, const BlockComparison::Part& part) {
  const std::int64_t unit = is_marked(label) ? label : label - k_first_unmarked;
  if (is_marked(label) != is_marked_) {
    clear();
    is_marked_ = is_marked(label);
  }
  if (blocks_.empty()) {
    begin_ = unit;
  }
  const auto is_beyond = [&] { return blocks_.empty() || unit >= blocks_.back().end; };
  while (is_beyond() && blocks_.size() >= k_kept) {
    make_room();  // it may be of the last one then
  }
  if (is_beyond()) {
    blocks_.push_back({.end = end_of(unit), .work = {}});
  }
  WorkBlock& open = blocks_.back();
  open.add(part);
  constexpr std::chrono::nanoseconds too_long = 4 * k_span / k_kept;
  if (level_ > 0 && open.work.calls >= 2 * k_block_calls && length_of(open.work) > too_long) {
    --level_;
    open.end = end_of(unit);
  }
}

/// Blocks that are short become fewer; else the first is forgotten.
void LatestBlocks::make_room() {
  BlockComparison::Part all;
  for (const WorkBlock& block : blocks_) {
    all.add(block.work);
  }
  const bool are_short = all.calls < std::int64_t{k_kept} * k_block_calls || length_of(all) < k_span;
  if (are_short && level_ < k_most_levels) {
    ++level_;
    merge();
  } else {
    begin_ = blocks_.front().end;
    blocks_.erase(blocks_.begin());
  }
}

void LatestBlocks::merge() {
  std::vector<WorkBlock> merged;
  for (const WorkBlock& block : blocks_) {
    const std::int64_t end = end_of(block.end - 1);
    if (merged.empty() || merged.back().end != end) {
      merged.push_back({.end = end, .work = {}});
    }
    merged.back().add(block.work);
  }
  blocks_ = std::move(merged);
}

SpanningWork LatestBlocks::told() const {
  SpanningWork work{.rank = {}, .is_marked = is_marked_, .begin = begin_, .blocks = {}};
  const std::size_t first = whole() - std::min(whole(), k_told);
  if (whole() > 0) {
    work.begin = first == 0 ? begin_ : blocks_[first - 1].end;
    work.blocks.assign(blocks_.begin() + static_cast<std::ptrdiff_t>(first), blocks_.end() - 1);
  }
  return work;
}

}  // namespace commlens
