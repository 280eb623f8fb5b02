#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "commlens/transport/conformance_calls.hpp"

/// Checks of conformance_cases.hpp: every way to make a call, calls that are issued as one, and calls of
/// several groups at once.
namespace commlens::conformance {

/// 20,011 elements of fp32 are more than a piece of ranks as threads (64 KiB).
constexpr std::array<std::int64_t, 3> k_counts_of_ways{0, 1, 20'011};

inline void check_every_way(Communicator& group, const Target& target) {
  for (const Shape shape : k_shapes) {
    for (const std::int64_t count : k_counts_of_ways) {
      for (const Way way : k_ways) {
        make_and_expect(group, target, {.shape = shape, .count = count, .root = group.size() - 1}, way);
      }
    }
  }
}

using TestCalls = std::vector<std::unique_ptr<TestCall>>;

inline std::vector<CommCall> calls_of(const TestCalls& made) {
  std::vector<CommCall> calls;
  for (const std::unique_ptr<TestCall>& one : made) {
    calls.push_back(one->call());
  }
  return calls;
}

/// Two calls of every kind in one group, small and large ones.
inline void check_collectives_as_one_group(Communicator& group, const Target& target) {
  for (const Way way : {Way::wait, Way::poll}) {
    TestCalls made;
    for (const std::int64_t count : {std::int64_t{3}, std::int64_t{20'011}}) {
      for (const Shape shape : k_shapes) {
        made.push_back(std::make_unique<TestCall>(
            group, target, TestCall::Options{.shape = shape, .count = count, .root = group.size() / 2}));
      }
    }
    const std::vector<CommCall> calls = calls_of(made);
    await(*group.start_group(calls), way);
    for (const std::unique_ptr<TestCall>& one : made) {
      one->expect();
    }
  }
  await(*group.start_group({}), Way::poll);
}

/// Every rank sends in both directions of the ring first and receives then, more than a library buffers.
inline void check_messages_as_one_group(Communicator& group, const Target& target) {
  constexpr std::int64_t k_count = 300'007;
  const std::int64_t self = group.rank().value;
  const std::int64_t next = (self + 1) % group.size();
  const std::int64_t previous = (self + group.size() - 1) % group.size();
  for (const Way way : {Way::wait, Way::poll}) {
    const Buffer to_next(target, DType::fp32, given(self, 0, k_count));
    const Buffer to_previous(target, DType::bf16, given(self, 5, k_count));
    const Buffer from_previous(target, DType::fp32, k_count);
    const Buffer from_next(target, DType::bf16, k_count);
    const bool is_pair = next == previous;  // messages of a pair match in order
    std::vector<CommCall> calls{
        send_of(DType::fp32, to_next, next), send_of(DType::bf16, to_previous, previous),
        recv_of(DType::bf16, from_next, next), recv_of(DType::fp32, from_previous, previous)};
    if (is_pair) {
      std::swap(calls[2], calls[3]);
    }
    await(*group.start_group(calls), way);
    from_previous.expect(given(previous, 0, k_count), "a message around the ring, of a group of calls");
    from_next.expect(given(next, 5, k_count), "a message the other way, of a group of calls");
  }
}

/// One call of each kind on each of the groups, all of them in flight; waited for in the reverse order.
inline void check_in_flight(std::span<Communicator* const> groups, const Target& target) {
  TestCalls made;
  std::vector<std::unique_ptr<Work>> works;
  for (const Shape shape : k_shapes) {
    for (Communicator* const group : groups) {
      made.push_back(std::make_unique<TestCall>(
          *group, target, TestCall::Options{.shape = shape, .count = shape == Shape::gather ? 3 : 20'011}));
      works.push_back(group->start(made.back()->call()));
    }
  }
  for (std::size_t i = works.size(); i > 0; --i) {
    works[i - 1]->wait();
    made[i - 1]->expect();
  }
}

/// The halves of the ranks, one of them with more to do, while a call of all ranks is in flight.
inline void check_disjoint_groups_at_once(Communicator& group, const Target& target) {
  const std::int64_t self = group.rank().value;
  const std::int64_t color = 2 * self < group.size() ? 0 : 1;
  const std::unique_ptr<Communicator> half = group.split(color, self);
  const TestCall of_all(group, target, {.shape = Shape::all_reduce_in_place, .count = 50'021});
  const std::unique_ptr<Work> work = group.start(of_all.call());
  for (std::int64_t repetition = 0; repetition <= 2 * color; ++repetition) {
    const std::array<Communicator*, 1> one{half.get()};
    check_in_flight(one, target);
    for (const Shape shape : k_shapes) {
      make_and_expect(*half, target, {.shape = shape, .count = 1000 + color});
    }
  }
  work->wait();
  of_all.expect();
}

/// The rows and columns of a grid of two rows (and what is left): each rank is in two groups, whose calls are
/// in flight at once.
inline void check_overlapping_groups_at_once(Communicator& group, const Target& target) {
  const std::int64_t self = group.rank().value;
  const std::int64_t columns = std::max<std::int64_t>(1, group.size() / 2);
  const std::unique_ptr<Communicator> row = group.split(self / columns, self);
  const std::unique_ptr<Communicator> column = group.split(self % columns, self);
  const std::array<Communicator*, 2> both{row.get(), column.get()};
  check_in_flight(both, target);
  for (const Shape shape : k_shapes) {
    make_and_expect(*row, target, {.shape = shape, .count = 5003});
    make_and_expect(*column, target, {.shape = shape, .count = 5003});
  }
}

}  // namespace commlens::conformance
