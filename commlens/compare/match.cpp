#include "commlens/compare/match.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "commlens/base/sums.hpp"
#include "commlens/comm/volume.hpp"

namespace commlens {
namespace {

/// Pairs, in order, with equal ones counted together.
class PairList {
 public:
  void add(std::optional<OpId> a, std::optional<OpId> b) {
    const std::uint64_t left = a ? std::uint64_t{static_cast<std::uint32_t>(*a)} + 1 : 0;
    const std::uint64_t right = b ? std::uint64_t{static_cast<std::uint32_t>(*b)} + 1 : 0;
    const auto [found, added] = places_.try_emplace(left << 32 | right, pairs_.size());
    if (added) {
      pairs_.push_back({a.value_or(OpId{}), b.value_or(OpId{}), a.has_value(), b.has_value(), 0});
    }
    ++pairs_[found->second].times;
  }
  std::vector<Pair> take() { return std::move(pairs_); }

 private:
  std::vector<Pair> pairs_;
  std::unordered_map<std::uint64_t, std::size_t> places_;
};

}  // namespace

/// Calls that may be paired: of the same element type, and of the same size, of the same power of two or of
/// any size.
Matcher::Alike Matcher::alike(const CommOp& op, Nearness nearness) {
  const std::int64_t size = std::max<std::int64_t>(op.input.value, 1);
  switch (nearness) {
    case Nearness::same_size:
      return {op.dtype, size};
    case Nearness::same_magnitude:
      return {op.dtype, std::lround(std::log2(static_cast<double>(size)))};
    case Nearness::any_size:
      break;
  }
  return {op.dtype, 0};
}

/// Removes pairs of calls that are alike, the first ones of each list, and adds them to `counted`.
void Matcher::cancel(std::vector<OpId>& left, std::vector<OpId>& right, Nearness nearness,
                     CountedCalls& counted) const {
  if (left.empty() || right.empty()) {
    return;
  }
  using Calls = std::map<Alike, std::int64_t>;
  Calls left_calls;
  Calls right_calls;
  for (const OpId op : left) {
    ++left_calls[alike(a_.trace.op(op), nearness)];
  }
  for (const OpId op : right) {
    ++right_calls[alike(b_.trace.op(op), nearness)];
  }
  for (auto& [like, calls] : left_calls) {
    calls = right_calls[like] = std::min(calls, right_calls[like]);
    counted.calls += calls;
  }
  const auto remove = [&](const Trace& trace, Calls& calls, std::vector<OpId>& from, OpId& example,
                          Bytes& message) {
    const auto is_paired = [&](OpId op) {
      const bool is_one = calls[alike(trace.op(op), nearness)]-- > 0;
      if (is_one) {
        example = op;
        message = saturating_sum(message, message_bytes(trace.op(op)));
      }
      return is_one;
    };
    from.erase(std::remove_if(from.begin(), from.end(), is_paired), from.end());
  };
  for (auto& [like, calls] : right_calls) {
    calls = left_calls.count(like) > 0 ? calls : 0;
  }
  remove(a_.trace, left_calls, left, counted.a, counted.message_a);
  remove(b_.trace, right_calls, right, counted.b, counted.message_b);
}

std::size_t Matcher::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = static_cast<std::uint64_t>(key.kind) << 8 | static_cast<std::uint64_t>(key.dtype);
  for (const std::int64_t part : {static_cast<std::int64_t>(key.group), key.root, key.input.value,
                                  key.output.value, std::int64_t{key.by_count}}) {
    hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  }
  return static_cast<std::size_t>(hash);
}

void Matcher::look_from(Rank self) {
  self_ = self;
  key_ids_.clear();
  keys_.clear();
  bucket_of_key_.clear();
  a_.key_of_op.assign(a_.trace.ops().size(), k_unresolved);
  b_.key_of_op.assign(b_.trace.ops().size(), k_unresolved);
}

std::uint32_t Matcher::intern(const Key& key) {
  const auto [found, added] = key_ids_.try_emplace(key, static_cast<std::uint32_t>(keys_.size()));
  if (added) {
    keys_.push_back(key);
    bucket_of_key_.push_back(0);
  }
  return found->second;
}

std::uint32_t Matcher::key_of(Side& side, OpId id) {
  std::uint32_t& known = side.key_of_op[static_cast<std::size_t>(id)];
  if (known != k_unresolved) {
    return known;
  }
  const CommOp& op = side.trace.op(id);
  Key bucket;
  bucket.kind = op.kind;
  bucket.group = side.groups.of(op, self_);
  bucket.root = side.groups.root_of(op, self_);
  bucket.by_count = true;
  const std::uint32_t bucket_id = intern(bucket);
  bucket_of_key_[bucket_id] = bucket_id;
  known = bucket_id;
  if (op.match == Match::exact) {
    Key key = bucket;
    key.dtype = op.dtype;
    key.input = op.input;
    key.output = op.output;
    key.by_count = false;
    known = intern(key);
    bucket_of_key_[known] = bucket_id;
  }
  return known;
}

void Matcher::add_keys(Side& side, const IterationCalls& calls, std::vector<std::uint32_t>& keys) {
  for (const auto& [op, times] : calls.counts) {
    const std::uint32_t key = key_of(side, op);
    keys.push_back(key);
    keys.push_back(bucket_of_key_[key]);
  }
}

std::vector<std::uint32_t> Matcher::keys_of(const IterationCalls& a, const IterationCalls& b) {
  std::vector<std::uint32_t> keys;
  add_keys(a_, a, keys);
  add_keys(b_, b, keys);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

void Matcher::start(Side& side, const std::vector<std::uint32_t>& keys, std::size_t all_keys) {
  side.counts.resize(all_keys, 0);
  side.to_match.resize(all_keys, 0);
  side.leftovers.resize(all_keys);
  for (const std::uint32_t key : keys) {
    side.counts[key] = 0;
    side.leftovers[key].fixed.clear();
    side.leftovers[key].by_count.clear();
  }
}

void Matcher::count(Side& side, const IterationCalls& calls) {
  for (const auto& [op, times] : calls.counts) {
    side.counts[key_of(side, op)] += times;
  }
}

void Matcher::collect(Side& side, const IterationCalls& calls) {
  // The first calls of a key are matched; the later ones remain unmatched.
  for (const OpId op : calls.sequence) {
    const std::uint32_t key = key_of(side, op);
    if (side.to_match[key] > 0) {
      --side.to_match[key];
      continue;
    }
    Leftovers& bucket = side.leftovers[bucket_of_key_[key]];
    (keys_[key].by_count ? bucket.by_count : bucket.fixed).push_back(op);
  }
}

bool Matcher::same_order(const IterationCalls& a, const IterationCalls& b) {
  if (a.sequence.size() != b.sequence.size()) {
    return false;
  }
  for (std::size_t at = 0; at < a.sequence.size(); ++at) {
    const std::uint32_t left = key_of(a_, a.sequence[at]);
    const std::uint32_t right = key_of(b_, b.sequence[at]);
    const bool any_by_count = keys_[left].by_count || keys_[right].by_count;
    const bool same_type = a_.trace.op(a.sequence[at]).dtype == b_.trace.op(b.sequence[at]).dtype;
    const bool same =
        any_by_count ? same_type && bucket_of_key_[left] == bucket_of_key_[right] : left == right;
    if (!same) {
      return false;
    }
  }
  return true;
}

Matcher::ReduceOps Matcher::reduce_ops(Side& side, const IterationCalls& calls) {
  ReduceOps found;
  for (const auto& [id, times] : calls.counts) {
    const CommOp& op = side.trace.op(id);
    if (is_reducing(op.kind) && op.match == Match::exact && op.reduction != Reduction::unknown) {
      found[key_of(side, id)][op.reduction] += times;
    }
  }
  return found;
}

std::vector<ReduceOpDifference> Matcher::other_reduce_ops(const IterationCalls& a, const IterationCalls& b) {
  std::vector<ReduceOpDifference> found;
  ReduceOps right = reduce_ops(b_, b);
  if (right.empty()) {
    return found;
  }
  for (auto& [key, left] : reduce_ops(a_, a)) {
    std::map<Reduction, std::int64_t>& others = right[key];
    for (auto& [reduction, calls] : left) {
      const std::int64_t both = std::min(calls, others[reduction]);
      calls -= both;
      others[reduction] -= both;
    }
    for (auto& [reduction, calls] : left) {
      for (auto& [other, count] : others) {
        const std::int64_t pairs = std::min(calls, count);
        calls -= pairs;
        count -= pairs;
        if (pairs > 0) {
          found.push_back({keys_[key].kind, reduction, other, pairs});
        }
      }
    }
  }
  return found;
}

Matching Matcher::match(const IterationCalls& a, const IterationCalls& b) {
  const std::vector<std::uint32_t> keys = keys_of(a, b);
  start(a_, keys, keys_.size());
  start(b_, keys, keys_.size());
  count(a_, a);
  count(b_, b);
  Matching matching;
  matching.reduce_ops = other_reduce_ops(a, b);
  bool all_equal = true;
  for (const std::uint32_t key : keys) {
    const bool fixed = !keys_[key].by_count;
    const std::int64_t both = fixed ? std::min(a_.counts[key], b_.counts[key]) : 0;
    matching.exact += both;
    a_.to_match[key] = b_.to_match[key] = both;
    all_equal = all_equal && a_.counts[key] == b_.counts[key] && (fixed || a_.counts[key] == 0);
  }
  if (all_equal) {
    matching.same_order = same_order(a, b);
    return matching;
  }

  collect(a_, a);
  collect(b_, b);
  PairList pairs;
  for (const std::uint32_t bucket : keys) {
    Leftovers& l = a_.leftovers[bucket];
    Leftovers& r = b_.leftovers[bucket];
    // Where there are more calls on one side, those that are left have sizes that the other one lacks.
    CountedCalls counted;
    for (const Nearness nearness : {Nearness::same_size, Nearness::same_magnitude, Nearness::any_size}) {
      cancel(l.by_count, r.fixed, nearness, counted);
      cancel(l.fixed, r.by_count, nearness, counted);
      cancel(l.by_count, r.by_count, nearness, counted);
    }
    if (counted.calls > 0) {
      matching.exact += counted.calls;
      matching.counted.push_back(counted);
    }
    l.fixed.insert(l.fixed.end(), l.by_count.begin(), l.by_count.end());
    r.fixed.insert(r.fixed.end(), r.by_count.begin(), r.by_count.end());
    for (std::size_t at = 0; at < std::max(l.fixed.size(), r.fixed.size()); ++at) {
      pairs.add(at < l.fixed.size() ? std::optional(l.fixed[at]) : std::nullopt,
                at < r.fixed.size() ? std::optional(r.fixed[at]) : std::nullopt);
    }
  }
  matching.leftover = pairs.take();
  matching.same_order = matching.leftover.empty() && same_order(a, b);
  return matching;
}

std::set<Matcher::Seen> Matcher::seen_from_all(Side& side, const std::vector<OpId>& ops, RankRange ranks) {
  std::set<Seen> groups;
  std::set<std::pair<GroupId, bool>> known;
  for (const OpId id : ops) {
    const CommOp& op = side.trace.op(id);
    if (!known.emplace(op.group, is_point_to_point(op.kind)).second) {
      continue;
    }
    Seen group;
    for (const Rank rank : ranks) {
      group.push_back(side.groups.of(op, rank));
    }
    groups.insert(std::move(group));
  }
  return groups;
}

bool Matcher::uniform(const std::vector<OpId>& a, const std::vector<OpId>& b, RankRange ranks) {
  const std::set<Seen> left = seen_from_all(a_, a, ranks);
  const std::set<Seen> right = seen_from_all(b_, b, ranks);
  const auto meet_for_all_or_none = [](const Seen& l, const Seen& r) {
    const bool first_same = l.front() == r.front();
    return std::equal(l.begin(), l.end(), r.begin(),
                      [&](CanonicalGroup one, CanonicalGroup other) { return (one == other) == first_same; });
  };
  return std::all_of(left.begin(), left.end(), [&](const Seen& l) {
    return std::all_of(right.begin(), right.end(), [&](const Seen& r) { return meet_for_all_or_none(l, r); });
  });
}

}  // namespace commlens
