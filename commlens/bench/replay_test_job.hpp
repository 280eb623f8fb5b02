#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "commlens/trace/trace.hpp"

// For tests only; the library does not include it.
namespace commlens::bench::test_support {

/// When a call was issued and when it was complete, in microseconds.
struct When {
  std::int64_t issued = 0;
  std::int64_t finished = 0;
};

/// A trace, call by call.
class ReplayJob {
 public:
  explicit ReplayJob(std::int64_t ranks) {
    for (Rank rank{0}; rank.value < ranks; ++rank.value) {
      trace.streams.push_back({{rank, rank}, {}, {}, {}});
    }
    trace.provenance.source = Source::recorded;
  }

  /// `members` as numbers of ranks; a send or recv has its source and its destination.
  void add(std::int64_t rank, CommKind kind, const std::vector<std::int64_t>& members, std::int64_t input,
           std::int64_t output, std::optional<When> when = std::nullopt) {
    std::vector<Rank> ranks;
    for (const std::int64_t member : members) {
      ranks.push_back(Rank{member});
    }
    CommOp op{.kind = kind,
              .dtype = DType::fp32,
              .group = trace.groups.intern(ranks, Axis::dp),
              .input = Elements{input},
              .output = Elements{output}};
    op.root = has_root(kind) ? std::optional(GroupRank{0}) : std::nullopt;
    add(rank, op, when);
  }
  void add(std::int64_t rank, const CommOp& op, std::optional<When> when = std::nullopt) {
    RankStream& stream = trace.streams[static_cast<std::size_t>(rank)];
    stream.events.push_back({trace.intern(op), 0, k_no_micro_batch});
    if (when) {
      const std::chrono::microseconds issued(when->issued);
      stream.times.push_back({issued, issued, std::chrono::microseconds(when->finished)});
    }
  }
  void all_reduce(std::int64_t rank, const std::vector<std::int64_t>& members, std::int64_t elements,
                  std::optional<When> when = std::nullopt) {
    add(rank, CommKind::all_reduce, members, elements, elements, when);
  }
  void send(std::int64_t from, std::int64_t to, std::int64_t elements,
            std::optional<When> when = std::nullopt) {
    add(from, CommKind::send, {from, to}, elements, 0, when);
  }
  void recv(std::int64_t to, std::int64_t from, std::int64_t elements,
            std::optional<When> when = std::nullopt) {
    add(to, CommKind::recv, {from, to}, 0, elements, when);
  }
  /// A time in which the rank computed, in microseconds.
  void compute(std::int64_t rank, std::int64_t from, std::int64_t to) {
    trace.streams[static_cast<std::size_t>(rank)].compute.push_back(
        {std::chrono::microseconds(from), std::chrono::microseconds(to), 0});
  }

  Trace trace;
};

}  // namespace commlens::bench::test_support
