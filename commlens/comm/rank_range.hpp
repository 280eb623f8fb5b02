#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "commlens/base/rank.hpp"

namespace commlens {

/// Ranks whose position along one axis of a mesh lies in a range: `block` consecutive ranks from `first` on,
/// and the same again every `every` ranks, up to `last`, which is one of them. Along the slowest axis, and of
/// single ranks, that is all ranks from `first` to `last`, and both are 0.
struct RankRange {
  Rank first;
  Rank last;
  std::int64_t block = 0;
  std::int64_t every = 0;

  class Iterator;

  bool is_gapless() const { return block == 0; }
  std::int64_t count() const;
  bool contains(Rank rank) const;
  /// How many ranks of the range are before `rank`, which is one of them.
  std::int64_t index_of(Rank rank) const;
  /// The smallest rank of the range that is >= `rank`; last + 1 if there is none.
  Rank at_or_after(Rank rank) const;
  Iterator begin() const;
  Iterator end() const;
  friend auto operator<=>(const RankRange&, const RankRange&) = default;
};

/// Walks over the ranks of a range, ascending.
class RankRange::Iterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = Rank;
  using difference_type = std::ptrdiff_t;
  using pointer = const Rank*;
  using reference = Rank;

  Iterator() = default;
  Iterator(const RankRange& range, Rank at) : range_(range), at_(at) {}
  Rank operator*() const { return at_; }
  Iterator& operator++() {
    at_ = range_.at_or_after(Rank{at_.value + 1});
    return *this;
  }
  Iterator operator++(int) {
    const Iterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Iterator& left, const Iterator& right) { return left.at_ == right.at_; }

 private:
  RankRange range_;
  Rank at_;
};

inline std::int64_t RankRange::count() const {
  const std::int64_t span = last.value - first.value + 1;
  return block == 0 ? span : ((span - block) / every + 1) * block;
}

inline bool RankRange::contains(Rank rank) const {
  return first <= rank && rank <= last && (block == 0 || (rank.value - first.value) % every < block);
}

inline std::int64_t RankRange::index_of(Rank rank) const {
  const std::int64_t offset = rank.value - first.value;
  return block == 0 ? offset : offset / every * block + offset % every;
}

inline Rank RankRange::at_or_after(Rank rank) const {
  if (rank <= first) {
    return first;
  }
  const std::int64_t offset = rank.value - first.value;
  const bool is_in_gap = block != 0 && offset % every >= block;
  const Rank next{is_in_gap ? first.value + (offset / every + 1) * every : rank.value};
  return next <= last ? next : Rank{last.value + 1};
}

inline RankRange::Iterator RankRange::begin() const { return {*this, first}; }
inline RankRange::Iterator RankRange::end() const { return {*this, Rank{last.value + 1}}; }

/// The ranks in both, as ranges that ascend; none when there are none. One range where both are positions
/// along the same axis, else the gapless pieces that they share.
std::vector<RankRange> intersection(const RankRange& left, const RankRange& right);
/// The gapless pieces of a range, ascending.
std::vector<RankRange> pieces_of(const RankRange& range);
/// The ranks of both as one range, where `right` has the positions right after those of `left`.
std::optional<RankRange> merged_range(const RankRange& left, const RankRange& right);
/// `only`, where the range has it and it is given; all ranks of the range where it is not given. May be
/// empty.
RankRange selected_ranks(const RankRange& range, std::optional<Rank> only);
/// The first `most` ranks of a range, or a few less: whole blocks.
RankRange first_ranks(const RankRange& range, std::int64_t most);

}  // namespace commlens
