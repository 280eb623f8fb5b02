#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "commlens/compare/canonical.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/compare/stream_calls.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// A call of A and the call of B it was paired with; one of them is absent if there was no call to pair with.
struct Pair {
  OpId a{};
  OpId b{};
  bool has_a = false;
  bool has_b = false;
  std::int64_t times = 0;
};

/// Calls of one op and group that were matched by their number, since their sizes depend on data, and the
/// message bytes that each side has in them.
struct CountedCalls {
  OpId a{};  // one of them
  OpId b{};
  std::int64_t calls = 0;
  Bytes message_a;
  Bytes message_b;
};

/// Two multisets of calls compared with each other.
struct Matching {
  std::int64_t exact = 0;
  bool same_order = true;                      // meaningful if all calls are matched
  std::vector<Pair> leftover;                  // size pairs, missing and extra calls
  std::vector<ReduceOpDifference> reduce_ops;  // of one rank
  std::vector<CountedCalls> counted;
};

/// Matches the calls of one rank in one iteration (multisets of op, dtype, sizes, group and root or peer,
/// docs/comparing.md). Unmatched calls of the same op, group and root are paired in issue order: a size
/// difference. Ops that match by count match any call of the same op, type, group and root.
class Matcher {
 public:
  Matcher(const Trace& a, const Trace& b)
      : a_{a, {a, canonical_}, {}, {}, {}, {}}, b_{b, {b, canonical_}, {}, {}, {}, {}} {}

  /// From here on calls are seen from `self`.
  void look_from(Rank self);
  Matching match(const IterationCalls& a, const IterationCalls& b);

  /// Whether `a` and `b` relate in the same way for every rank of `ranks`, so that one rank represents all:
  /// no group of one is a group of the other for some of the ranks only.
  bool uniform(const std::vector<OpId>& a, const std::vector<OpId>& b, RankRange ranks);

 private:
  /// Keys of equal calls, and buckets of calls that differ in size only.
  struct Key {
    CommKind kind{};
    CanonicalGroup group{};
    std::int64_t root = -1;
    DType dtype{};
    Elements input;
    Elements output;
    bool by_count = false;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Leftovers {
    std::vector<OpId> fixed;
    std::vector<OpId> by_count;
  };
  struct Side {
    const Trace& trace;
    ResolvedGroups groups;
    std::vector<std::uint32_t> key_of_op;  // k_unresolved when not yet known from this rank
    // Per key, for the current iteration; meaningful for the keys that occur in it.
    std::vector<std::int64_t> counts;
    std::vector<std::int64_t> to_match;
    std::vector<Leftovers> leftovers;  // by bucket
  };
  using Seen = std::vector<CanonicalGroup>;  // one group, seen from each rank of a range
  static constexpr std::uint32_t k_unresolved = UINT32_MAX;

  std::uint32_t key_of(Side& side, OpId op);
  std::uint32_t intern(const Key& key);
  enum class Nearness : std::uint8_t { same_size, same_magnitude, any_size };
  using Alike = std::pair<DType, std::int64_t>;
  static Alike alike(const CommOp& op, Nearness nearness);
  void cancel(std::vector<OpId>& left, std::vector<OpId>& right, Nearness nearness,
              CountedCalls& counted) const;
  /// The keys and buckets of an iteration's calls, ascending. A rank may have many keys, different ones in
  /// each iteration: the time per iteration depends on its own keys only.
  std::vector<std::uint32_t> keys_of(const IterationCalls& a, const IterationCalls& b);
  void add_keys(Side& side, const IterationCalls& calls, std::vector<std::uint32_t>& keys);
  static void start(Side& side, const std::vector<std::uint32_t>& keys, std::size_t all_keys);
  void count(Side& side, const IterationCalls& calls);
  void collect(Side& side, const IterationCalls& calls);
  bool same_order(const IterationCalls& a, const IterationCalls& b);
  /// Known reduce ops of the calls of each key, in how many calls.
  using ReduceOps = std::map<std::uint32_t, std::map<Reduction, std::int64_t>>;
  ReduceOps reduce_ops(Side& side, const IterationCalls& calls);
  std::vector<ReduceOpDifference> other_reduce_ops(const IterationCalls& a, const IterationCalls& b);
  static std::set<Seen> seen_from_all(Side& side, const std::vector<OpId>& ops, RankRange ranks);

  CanonicalGroups canonical_;
  Side a_;
  Side b_;
  Rank self_;
  std::unordered_map<Key, std::uint32_t, KeyHash> key_ids_;
  std::vector<Key> keys_;
  std::vector<std::uint32_t> bucket_of_key_;  // calls that may differ in size share a bucket, itself a key
};

}  // namespace commlens
