#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/transport/conformance.hpp"
#include "commlens/transport/conformance_groups.hpp"
#include "commlens/transport/conformance_parts.hpp"

namespace commlens::conformance {

constexpr std::array k_reductions{ReduceOp::sum, ReduceOp::max};

/// Calls body(type, count, reduction) for all types that can be combined.
template <typename Body>
void for_combined(const Target& target, const Body& body) {
  for (const DType type : target.combined) {
    for (const std::int64_t count : k_counts) {
      for (const ReduceOp reduction : k_reductions) {
        body(type, count, reduction);
      }
    }
  }
}

/// Calls body(type, count) for all types.
template <typename Body>
void for_moved(const Body& body) {
  for (const DType type : k_moved_types) {
    for (const std::int64_t count : k_counts) {
      body(type, count);
    }
  }
}

inline void check_all_reduce(Communicator& group, const Target& target) {
  const std::int64_t self = group.rank().value;
  for_combined(target, [&](DType type, std::int64_t count, ReduceOp reduction) {
    const std::string what = title(CommKind::all_reduce, type, count);
    const Values own = given(self, 0, count);
    const Buffer input(target, type, own);
    const Buffer output(target, type, count);
    CommCall call = call_of(CommKind::all_reduce, type, input, output);
    call.reduction = reduction;
    group.run(call);
    output.expect(combined(reduction, group.size(), 0, count), what);
    input.expect(own, what + ", its input");
  });
}

inline void check_all_reduce_in_place(Communicator& group, const Target& target) {
  for_combined(target, [&](DType type, std::int64_t count, ReduceOp reduction) {
    const Buffer buffer(target, type, given(group.rank().value, 0, count));
    CommCall call = call_of(CommKind::all_reduce, type, buffer, buffer);
    call.reduction = reduction;
    group.run(call);
    buffer.expect(combined(reduction, group.size(), 0, count),
                  title(CommKind::all_reduce, type, count) + " in place");
  });
}

inline void check_all_gather(Communicator& group, const Target& target) {
  for_moved([&](DType type, std::int64_t count) {
    const Buffer shard(target, type, given(group.rank().value, 0, count));
    const Buffer whole(target, type, count * group.size());
    group.run(call_of(CommKind::all_gather, type, shard, whole));
    Values expected;
    for (std::int64_t rank = 0; rank < group.size(); ++rank) {
      const Values part = given(rank, 0, count);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    whole.expect(expected, title(CommKind::all_gather, type, count));
  });
}

inline void check_reduce_scatter(Communicator& group, const Target& target) {
  const std::int64_t self = group.rank().value;
  for_combined(target, [&](DType type, std::int64_t count, ReduceOp reduction) {
    const Buffer whole(target, type, given(self, 0, count * group.size()));
    const Buffer shard(target, type, count);
    CommCall call = call_of(CommKind::reduce_scatter, type, whole, shard);
    call.reduction = reduction;
    group.run(call);
    shard.expect(combined(reduction, group.size(), self * count, count),
                 title(CommKind::reduce_scatter, type, count));
  });
}

inline void check_all_to_all(Communicator& group, const Target& target) {
  const std::int64_t self = group.rank().value;
  for_moved([&](DType type, std::int64_t count) {
    const Buffer sent(target, type, given(self, 0, count * group.size()));
    const Buffer received(target, type, count * group.size());
    group.run(call_of(CommKind::all_to_all, type, sent, received));
    Values expected;
    for (std::int64_t rank = 0; rank < group.size(); ++rank) {
      const Values part = given(rank, self * count, count);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    received.expect(expected, title(CommKind::all_to_all, type, count));
  });
}

inline void check_broadcast(Communicator& group, const Target& target) {
  for_moved([&](DType type, std::int64_t count) {
    for (std::int64_t root = 0; root < group.size(); ++root) {
      const std::string what = fmt::format("{} from {}", title(CommKind::broadcast, type, count), root);
      const Buffer input(target, type, given(group.rank().value, 0, count));
      const Buffer output(target, type, count);
      CommCall call = call_of(CommKind::broadcast, type, input, output);
      call.peer = GroupRank{root};
      group.run(call);
      output.expect(given(root, 0, count), what);
      call.output_buffer = input.memory();
      group.run(call);
      input.expect(given(root, 0, count), what + " in place");
    }
  });
}

inline void check_reduce(Communicator& group, const Target& target) {
  const std::int64_t self = group.rank().value;
  for_combined(target, [&](DType type, std::int64_t count, ReduceOp reduction) {
    for (std::int64_t root = 0; root < group.size(); ++root) {
      const std::string what = fmt::format("{} to {}", title(CommKind::reduce, type, count), root);
      const Values own = given(self, 0, count);
      const Values all = combined(reduction, group.size(), 0, count);
      const Buffer input(target, type, own);
      const Buffer output(target, type, count);
      CommCall call = call_of(CommKind::reduce, type, input, output);
      call.reduction = reduction;
      call.peer = GroupRank{root};
      group.run(call);
      if (self == root) {
        output.expect(all, what);
      }
      input.expect(own, what + ", its input");
      call.output_buffer = input.memory();
      group.run(call);
      if (self == root) {
        input.expect(all, what + " in place");
      }
    }
  });
}

/// Every rank sends to the next one around the ring, in every type and size.
inline void check_send_and_recv(Communicator& group, const Target& target) {
  const std::int64_t self = group.rank().value;
  const std::int64_t next = (self + 1) % group.size();
  const std::int64_t previous = (self + group.size() - 1) % group.size();
  for_moved([&](DType type, std::int64_t count) {
    const Buffer sent(target, type, given(self, 0, count));
    const Buffer received(target, type, count);
    std::vector<std::unique_ptr<Work>> works;
    if (self % 2 == 0) {  // one rank of a pair sends first: a transport may carry out calls in order
      works.push_back(group.start(send_of(type, sent, next)));
      works.push_back(group.start(recv_of(type, received, previous)));
    } else {
      works.push_back(group.start(recv_of(type, received, previous)));
      works.push_back(group.start(send_of(type, sent, next)));
    }
    works[0]->wait();
    works[1]->wait();
    received.expect(given(previous, 0, count), title(CommKind::recv, type, count));
  });
}

/// Many concurrent messages between ranks 0 and 1 arrive in the order of their sends, independent of those of
/// the other direction.
inline void check_messages_keep_their_order(Communicator& group, const Target& target) {
  constexpr std::int64_t k_messages = 40;
  const std::int64_t self = group.rank().value;
  if (self > 1) {
    return;
  }
  std::vector<std::unique_ptr<Buffer>> sent;
  std::vector<std::unique_ptr<Buffer>> received;
  for (std::int64_t message = 0; message < k_messages; ++message) {
    sent.push_back(std::make_unique<Buffer>(target, DType::int32, Values{self, message, 5}));
    received.push_back(std::make_unique<Buffer>(target, DType::int32, 3));
  }
  const auto all = [&](bool sends) {
    std::vector<std::unique_ptr<Work>> works;
    for (std::size_t message = 0; message < sent.size(); ++message) {
      works.push_back(group.start(sends ? send_of(DType::int32, *sent[message], 1 - self)
                                        : recv_of(DType::int32, *received[message], 1 - self)));
    }
    return works;
  };
  std::vector<std::unique_ptr<Work>> first = all(self == 0);
  std::vector<std::unique_ptr<Work>> second = all(self != 0);
  for (std::size_t message = 0; message < sent.size(); ++message) {
    first[message]->wait();
    second[message]->wait();
  }
  for (std::int64_t message = 0; message < k_messages; ++message) {
    received[static_cast<std::size_t>(message)]->expect(Values{1 - self, message, 5},
                                                        fmt::format("message {}", message));
  }
}

inline void check_barrier(Communicator& group, const Target& /*target*/) {
  for (int repetition = 0; repetition < 20; ++repetition) {
    group.barrier();
  }
}

inline void expect_that(bool condition, const std::string& what) {
  if (!condition) {
    throw Failure(what);
  }
}

/// The sum over `group` of each rank's place in `world` is that of its members.
inline void expect_sum_of_members(Communicator& group, const Communicator& world, const Target& target,
                                  const std::string& what) {
  const std::vector<Rank>& all = world.members();
  const auto place = [&](Rank rank) { return std::find(all.begin(), all.end(), rank) - all.begin(); };
  std::int64_t expected = 0;
  for (const Rank member : group.members()) {
    expected += place(member);
  }
  const Buffer buffer(target, DType::int64, Values{world.rank().value});
  group.run(call_of(CommKind::all_reduce, DType::int64, buffer, buffer));
  buffer.expect(Values{expected}, what);
}

/// Even and odd ranks, the keys reversed.
inline void check_split_with_reversed_keys(Communicator& group, const Target& target) {
  const std::int64_t self = group.rank().value;
  const std::unique_ptr<Communicator> half = group.split(self % 2, -self);
  std::vector<Rank> expected;
  for (std::int64_t rank = group.size() - 1; rank >= 0; --rank) {
    if (rank % 2 == self % 2) {
      expected.push_back(group.members()[static_cast<std::size_t>(rank)]);
    }
  }
  expect_that(half != nullptr && half->members() == expected, "split with reversed keys: other members");
  expect_that(half->members()[static_cast<std::size_t>(half->rank().value)] ==
                  group.members()[static_cast<std::size_t>(self)],
              "split with reversed keys: another rank");
  expect_sum_of_members(*half, group, target, "all_reduce over half of the ranks");
  const Buffer shard(target, DType::int32, Values{self});
  const Buffer whole(target, DType::int32, half->size());
  half->run(call_of(CommKind::all_gather, DType::int32, shard, whole));
  Values order;
  for (std::int64_t rank = group.size() - 1; rank >= 0; --rank) {
    if (rank % 2 == self % 2) {
      order.push_back(rank);
    }
  }
  whole.expect(order, "all_gather over half of the ranks");
}

inline void check_split_with_equal_keys_keeps_the_order(Communicator& group, const Target& target) {
  const std::unique_ptr<Communicator> same = group.split(7, 3);
  expect_that(same != nullptr && same->members() == group.members() && same->rank() == group.rank(),
              "split with equal keys: other members");
  expect_sum_of_members(*same, group, target, "all_reduce over a copy of the group");
}

/// Rank 0 does not participate; the others continue, also after a second split.
inline void check_split_without_some(Communicator& group, const Target& target) {
  const std::int64_t self = group.rank().value;
  const std::unique_ptr<Communicator> rest = group.split(self == 0 ? -1 : 0, self);
  expect_that((rest == nullptr) == (self == 0), "split with a negative color: null for the wrong ranks");
  if (rest != nullptr) {
    expect_that(rest->size() == group.size() - 1, "split with a negative color: another size");
    expect_sum_of_members(*rest, group, target, "all_reduce without rank 0");
    const std::unique_ptr<Communicator> own = rest->split(self, 0);
    expect_that(own->members() == std::vector{group.members()[static_cast<std::size_t>(self)]},
                "a second split: other members");
    expect_sum_of_members(*own, group, target, "all_reduce over a part of a part");
  }
  group.barrier();
}

/// Every collective call, in a group of one.
inline void check_one_rank(Communicator& group, const Target& target) {
  const std::unique_ptr<Communicator> own = group.split(group.rank().value, 0);
  check_all_reduce(*own, target);
  check_all_reduce_in_place(*own, target);
  check_all_gather(*own, target);
  check_reduce_scatter(*own, target);
  check_all_to_all(*own, target);
  check_broadcast(*own, target);
  check_reduce(*own, target);
  check_barrier(*own, target);
  check_unequal_parts(*own, target);
  check_gather_and_scatter(*own, target);
  check_averages(*own, target);
  check_every_way(*own, target);
}

/// Works on two groups at once, waited for from the last to the first.
inline void check_many_works_in_another_order(Communicator& group, const Target& target) {
  constexpr std::int64_t k_works = 60;
  const std::int64_t self = group.rank().value;
  const std::unique_ptr<Communicator> other = group.split(0, 0);
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<std::unique_ptr<Work>> works;
  for (std::int64_t i = 0; i < k_works; ++i) {
    const std::int64_t count = i % 7 == 0 ? 20'001 : i;
    buffers.push_back(std::make_unique<Buffer>(target, DType::fp32, given(self, i, count)));
    Communicator& chosen = i % 3 == 0 ? *other : group;
    works.push_back(
        chosen.start(call_of(CommKind::all_reduce, DType::fp32, *buffers.back(), *buffers.back())));
  }
  for (std::int64_t i = k_works - 1; i >= 0; --i) {
    const auto index = static_cast<std::size_t>(i);
    works[index]->wait();
    const std::int64_t count = buffers[index]->elements().value;
    buffers[index]->expect(combined(ReduceOp::sum, group.size(), i, count), fmt::format("work {}", i));
  }
}

inline void check_waiting_twice(Communicator& group, const Target& target) {
  const Buffer buffer(target, DType::int32, Values{1, 2});
  const std::unique_ptr<Work> work = group.start(call_of(CommKind::all_reduce, DType::int32, buffer, buffer));
  work->wait();
  work->wait();
  buffer.expect(Values{group.size(), 2 * group.size()}, "all_reduce waited for twice");
}

/// A few MiB, not a multiple of anything.
inline void check_big_calls(Communicator& group, const Target& target) {
  constexpr std::int64_t k_count = 600'003;
  const std::int64_t self = group.rank().value;
  for (const DType type : {DType::fp32, DType::bf16, DType::uint8}) {
    const Buffer buffer(target, type, given(self, 0, k_count));
    group.run(call_of(CommKind::all_reduce, type, buffer, buffer));
    buffer.expect(combined(ReduceOp::sum, group.size(), 0, k_count),
                  title(CommKind::all_reduce, type, k_count));
  }
  constexpr std::int64_t k_shard = 100'007;
  const Buffer whole(target, DType::fp32, given(self, 0, k_shard * group.size()));
  const Buffer shard(target, DType::fp32, k_shard);
  group.run(call_of(CommKind::reduce_scatter, DType::fp32, whole, shard));
  shard.expect(combined(ReduceOp::sum, group.size(), self * k_shard, k_shard), "a big reduce_scatter");
  const Buffer gathered(target, DType::fp32, k_shard * group.size());
  group.run(call_of(CommKind::all_gather, DType::fp32, shard, gathered));
  gathered.expect(combined(ReduceOp::sum, group.size(), 0, k_shard * group.size()), "a big all_gather");
}

/// One check. All ranks of a group of at least `ranks` call it.
struct Case {
  const char* name;
  std::int64_t ranks;
  void (*check)(Communicator& group, const Target& target);
};

constexpr std::array k_cases{
    Case{"AllReduce", 1, check_all_reduce},
    Case{"AllReduceInPlace", 1, check_all_reduce_in_place},
    Case{"AllGather", 1, check_all_gather},
    Case{"ReduceScatter", 1, check_reduce_scatter},
    Case{"AllToAll", 1, check_all_to_all},
    Case{"Broadcast", 1, check_broadcast},
    Case{"Reduce", 1, check_reduce},
    Case{"SendAndRecv", 2, check_send_and_recv},
    Case{"MessagesKeepTheirOrder", 2, check_messages_keep_their_order},
    Case{"Barrier", 1, check_barrier},
    Case{"SplitWithReversedKeys", 1, check_split_with_reversed_keys},
    Case{"SplitWithEqualKeysKeepsTheOrder", 1, check_split_with_equal_keys_keeps_the_order},
    Case{"SplitWithoutSome", 1, check_split_without_some},
    Case{"OneRank", 1, check_one_rank},
    Case{"ManyWorksInAnotherOrder", 1, check_many_works_in_another_order},
    Case{"WaitingTwice", 1, check_waiting_twice},
    Case{"BigCalls", 1, check_big_calls},
    Case{"UnequalParts", 1, check_unequal_parts},
    Case{"GatherAndScatter", 1, check_gather_and_scatter},
    Case{"Averages", 1, check_averages},
    Case{"EveryWay", 1, check_every_way},
    Case{"CollectivesAsOneGroup", 1, check_collectives_as_one_group},
    Case{"MessagesAsOneGroup", 2, check_messages_as_one_group},
    Case{"DisjointGroupsAtOnce", 1, check_disjoint_groups_at_once},
    Case{"OverlappingGroupsAtOnce", 1, check_overlapping_groups_at_once},
};

}  // namespace commlens::conformance
