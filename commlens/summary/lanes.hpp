#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace commlens {

/// The unmatched items of one member: first in, first out.
template <typename Item>
class Lane {
 public:
  struct Entry {
    std::int64_t label = 0;
    Item item;
  };

  bool is_empty() const { return first_ == entries_.size(); }
  std::int64_t size() const { return static_cast<std::int64_t>(entries_.size() - first_); }
  const Entry& front() const { return entries_[first_]; }
  void push(const Entry& entry) { entries_.push_back(entry); }
  void pop() {
    constexpr std::size_t worth_moving = 64;
    if (++first_ == entries_.size()) {
      entries_.clear();
      first_ = 0;
    } else if (first_ >= worth_moving && 2 * first_ >= entries_.size()) {
      entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
  }
  void drop() {
    entries_ = {};
    first_ = 0;
  }

 private:
  std::vector<Entry> entries_;
  std::size_t first_ = 0;
};

/// Matches items of the members of a group in order: the k-th item of a label on each of them. The labels of
/// a member's items never descend; members may be added in any order and far apart: unmatched items are held.
/// After the end of a member, items without its counterpart are incomplete.
template <typename Item>
class Lanes {
 public:
  /// `held`: per member a counter of the held items, of all groups of that rank, or null.
  explicit Lanes(std::vector<std::int64_t*> held)
      : lanes_(held.size()),
        has_ended_(held.size()),
        extra_(held.size()),
        items_(held.size()),
        held_(std::move(held)),
        awaited_(lanes_.size()) {}

  std::size_t members() const { return lanes_.size(); }
  /// Items that some members have and others lack: of each label the most of a member less the fewest.
  std::int64_t incomplete() const { return incomplete_; }
  std::int64_t waiting() const { return waiting_; }
  /// Items that were added and not matched since give_up().
  std::int64_t lost() const { return lost_; }

  /// Of a member that has not ended.
  void push(std::size_t member, std::int64_t label, const Item& item) {
    if (is_given_up_) {
      ++lost_;
      return;
    }
    awaited_ -= lanes_[member].is_empty() ? 1U : 0U;
    lanes_[member].push({label, item});
    count(member, 1);
  }

  /// Ends a member: no more items of it. Call once per member.
  void end(std::size_t member) {
    has_ended_[member] = true;
    awaited_ -= lanes_[member].is_empty() && !is_given_up_ ? 1U : 0U;
  }

  /// Whether match() has items to match.
  bool is_ready() const { return awaited_ == 0; }
  /// Calls visit(items, label, k) for each newly complete item, in order; items[i] is member i's.
  template <typename Visit>
  void match(const Visit& visit) {
    while (is_ready()) {
      const auto [label, is_complete] = next();
      if (label != label_) {
        close_label(label);
      }
      if (label == k_no_label) {
        return;
      }
      for (std::size_t member = 0; member < lanes_.size(); ++member) {
        if (!lanes_[member].is_empty() && lanes_[member].front().label == label) {
          take(member, is_complete);
        }
      }
      if (is_complete) {
        visit(items_, label, k_++);
      }
    }
  }

  /// Drops the held items, and ignores new ones. Returns the number of dropped items.
  std::int64_t give_up() {
    const std::int64_t forgotten = waiting_;
    for (std::size_t member = 0; member < lanes_.size(); ++member) {
      count(member, -lanes_[member].size());
      lanes_[member] = {};
    }
    is_given_up_ = true;
    awaited_ = lanes_.size();
    lost_ += forgotten;
    return forgotten;
  }

 private:
  static constexpr std::int64_t k_no_label = INT64_MAX;

  /// The least current label, and whether every member has an item of it.
  std::pair<std::int64_t, bool> next() const {
    std::int64_t least = k_no_label;
    std::int64_t most = INT64_MIN;
    for (const Lane<Item>& lane : lanes_) {
      const std::int64_t label = lane.is_empty() ? k_no_label : lane.front().label;
      least = std::min(least, label);
      most = std::max(most, label);
    }
    return {least, least == most};
  }

  void take(std::size_t member, bool is_complete) {
    items_[member] = lanes_[member].front().item;
    extra_[member] += is_complete ? 0 : 1;
    lanes_[member].pop();
    count(member, -1);
    awaited_ += lanes_[member].is_empty() && !has_ended_[member] ? 1U : 0U;
  }

  void close_label(std::int64_t next) {
    incomplete_ += extra_.empty() ? 0 : *std::max_element(extra_.begin(), extra_.end());
    std::fill(extra_.begin(), extra_.end(), 0);
    label_ = next;
    k_ = 0;
  }

  void count(std::size_t member, std::int64_t items) {
    waiting_ += items;
    if (held_[member] != nullptr) {
      *held_[member] += items;
    }
  }

  std::vector<Lane<Item>> lanes_;
  std::vector<bool> has_ended_;
  std::vector<std::int64_t> extra_;  // items of the current label that others lack
  std::vector<Item> items_;
  std::vector<std::int64_t*> held_;
  std::size_t awaited_;  // members that have no held item and have not ended
  std::int64_t label_ = k_no_label;
  std::int64_t k_ = 0;
  std::int64_t incomplete_ = 0;
  std::int64_t waiting_ = 0;
  std::int64_t lost_ = 0;
  bool is_given_up_ = false;
};

}  // namespace commlens
