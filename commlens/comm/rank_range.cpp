#include "commlens/comm/rank_range.hpp"

#include <algorithm>

namespace commlens {
namespace {

/// Both are whole rows of blocks that start at the same multiples of `every`.
bool share_rows(const RankRange& left, const RankRange& right) {
  const auto row = [](const RankRange& range) {
    return std::pair(range.first.value / range.every, range.last.value / range.every);
  };
  return !left.is_gapless() && left.every == right.every && row(left) == row(right);
}

RankRange simplified(RankRange range) {
  const bool is_whole = range.block == range.every || range.last.value - range.first.value < range.every;
  if (!range.is_gapless() && is_whole) {
    range.block = range.every = 0;
  }
  return range;
}

}  // namespace

std::vector<RankRange> pieces_of(const RankRange& range) {
  if (range.is_gapless()) {
    return {range};
  }
  std::vector<RankRange> pieces;
  for (std::int64_t first = range.first.value; first <= range.last.value; first += range.every) {
    pieces.push_back({Rank{first}, Rank{first + range.block - 1}});
  }
  return pieces;
}

namespace {

/// The part of a range with gaps between two ranks, if it has whole blocks alone.
std::optional<RankRange> whole_blocks(const RankRange& range, Rank first, Rank last) {
  const Rank begin = range.at_or_after(std::max(first, range.first));
  const Rank end = std::min(last, range.last);
  if (begin > end || (begin.value - range.first.value) % range.every != 0) {
    return std::nullopt;
  }
  const std::int64_t within = (end.value - range.first.value) % range.every;
  if (within < range.block - 1) {
    return std::nullopt;
  }
  const Rank last_of_block{end.value - within + range.block - 1};
  return last_of_block < begin ? std::nullopt
                               : std::optional(simplified({begin, last_of_block, range.block, range.every}));
}

}  // namespace

std::vector<RankRange> intersection(const RankRange& left, const RankRange& right) {
  const Rank first = std::max(left.first, right.first);
  const Rank last = std::min(left.last, right.last);
  if (first > last) {
    return {};
  }
  if (left == right || (right.is_gapless() && right.first <= left.first && left.last <= right.last)) {
    return {left};
  }
  if (left.is_gapless() && left.first <= right.first && right.last <= left.last) {
    return {right};
  }
  if (share_rows(left, right)) {
    const std::int64_t block = last.value % left.every - first.value % left.every + 1;
    return block > 0 ? std::vector{simplified({first, last, block, left.every})} : std::vector<RankRange>{};
  }
  if (left.is_gapless() != right.is_gapless()) {
    if (const auto blocks = whole_blocks(left.is_gapless() ? right : left, first, last)) {
      return {*blocks};
    }
  }
  std::vector<RankRange> common;
  for (Rank at = first; at <= last;) {
    const Rank start = std::max(left.at_or_after(at), right.at_or_after(at));
    if (!left.contains(start) || !right.contains(start)) {
      at = start;
      continue;
    }
    const auto end_of_block = [&](const RankRange& range) {
      return range.is_gapless()
                 ? range.last.value
                 : start.value - (start.value - range.first.value) % range.every + range.block - 1;
    };
    const Rank end{std::min({end_of_block(left), end_of_block(right), last.value})};
    if (start <= end) {
      common.push_back({start, end});
    }
    at = Rank{end.value + 1};
  }
  return common;
}

std::optional<RankRange> merged_range(const RankRange& left, const RankRange& right) {
  if (left.is_gapless() && right.is_gapless()) {
    return left.last.value + 1 == right.first.value ? std::optional(RankRange{left.first, right.last})
                                                    : std::nullopt;
  }
  const bool continues = !left.is_gapless() && left.block == right.block && left.every == right.every &&
                         left.last.value + 1 + left.every - left.block == right.first.value;
  if (continues) {  // the rows after
    return RankRange{left.first, right.last, left.block, left.every};
  }
  const bool follows = share_rows(left, right) && left.first.value + left.block == right.first.value;
  return follows ? std::optional(simplified({left.first, right.last, left.block + right.block, left.every}))
                 : std::nullopt;
}

RankRange selected_ranks(const RankRange& range, std::optional<Rank> only) {
  if (!only) {
    return range;
  }
  return range.contains(*only) ? RankRange{*only, *only}
                               : RankRange{range.first, Rank{range.first.value - 1}};
}

RankRange first_ranks(const RankRange& range, std::int64_t most) {
  if (range.count() <= most) {
    return range;
  }
  if (range.is_gapless()) {
    return {range.first, Rank{range.first.value + most - 1}};
  }
  const std::int64_t blocks = std::max<std::int64_t>(most / range.block, 1);
  return simplified({range.first, Rank{range.first.value + (blocks - 1) * range.every + range.block - 1},
                     range.block, range.every});
}

}  // namespace commlens
