#include "commlens/transport/call_check.hpp"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/base/result.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

using Sizes = std::vector<Elements>;

CommCall valid_call(CommKind kind, std::int64_t input, std::int64_t output) {
  static double memory[64];
  return {.kind = kind,
          .dtype = DType::fp32,
          .input_buffer = &memory[0],
          .output_buffer = &memory[32],
          .input = {input},
          .output = {output}};
}

CommCall other_call(OtherCall other, std::int64_t input, std::int64_t output, std::int64_t root) {
  CommCall call = valid_call(CommKind::other, input, output);
  call.other = other;
  call.peer = GroupRank{root};
  return call;
}

CommCall call_in_parts(CommKind kind, const Sizes& sent, const Sizes& received) {
  const auto sum = [](const Sizes& sizes) {
    std::int64_t all = 0;
    for (const Elements size : sizes) {
      all += size.value;
    }
    return all;
  };
  CommCall call = valid_call(kind, sum(sent), sum(received));
  call.input_parts = sent;
  call.output_parts = received;
  return call;
}

TEST(CallCheck, OnlyTheRootOfAGatherHasAnOutput) {
  EXPECT_EQ(fault_of(other_call(OtherCall::gather, 3, 6, 1), GroupRank{1}, 2), "");
  EXPECT_EQ(fault_of(other_call(OtherCall::gather, 3, 0, 1), GroupRank{0}, 2), "");
  EXPECT_EQ(fault_of(other_call(OtherCall::gather, 3, 6, 1), GroupRank{0}, 2),
            "gather over 2 ranks cannot have 3 elements in and 6 out");
  EXPECT_EQ(fault_of(other_call(OtherCall::gather, 3, 5, 1), GroupRank{1}, 2),
            "gather over 2 ranks cannot have 3 elements in and 5 out");
}

TEST(CallCheck, OnlyTheRootOfAScatterHasAnInput) {
  EXPECT_EQ(fault_of(other_call(OtherCall::scatter, 6, 3, 0), GroupRank{0}, 2), "");
  EXPECT_EQ(fault_of(other_call(OtherCall::scatter, 0, 3, 0), GroupRank{1}, 2), "");
  EXPECT_EQ(fault_of(other_call(OtherCall::scatter, 3, 3, 0), GroupRank{1}, 2),
            "scatter over 2 ranks cannot have 3 elements in and 3 out");
  EXPECT_EQ(fault_of(other_call(OtherCall::scatter, 0, 3, 2), GroupRank{1}, 2),
            "scatter of 3 fp32 (root 2) names rank 2 of a group of 2");
}

TEST(CallCheck, IntegersHaveNoAverage) {
  CommCall call = valid_call(CommKind::all_reduce, 4, 4);
  call.reduction = ReduceOp::avg;
  for (const DType type : {DType::fp64, DType::fp32, DType::fp16, DType::bf16}) {
    call.dtype = type;
    EXPECT_EQ(fault_of(call, GroupRank{0}, 2), "") << name_of(type);
  }
  for (const DType type : {DType::int64, DType::int32, DType::int16, DType::int8, DType::uint8}) {
    call.dtype = type;
    EXPECT_EQ(fault_of(call, GroupRank{0}, 2),
              "all_reduce of 4 " + std::string(name_of(type)) +
                  " (avg): only floating-point numbers have an average here; take their sum");
  }
}

TEST(CallCheck, PartsMakeUpTheirBuffer) {
  const Sizes parts{{3}, {0}};
  EXPECT_EQ(fault_of(call_in_parts(CommKind::all_to_all, parts, {{3}, {7}}), GroupRank{0}, 2), "");
  CommCall call = call_in_parts(CommKind::all_to_all, parts, parts);
  call.output = {4};
  EXPECT_EQ(
      fault_of(call, GroupRank{0}, 2),
      "all_to_all of 3 fp32 in unequal parts: the parts of its output have 3 elements, the output has 4");
  const Sizes negative{{4}, {-1}};
  EXPECT_EQ(fault_of(call_in_parts(CommKind::all_to_all, negative, negative), GroupRank{0}, 2),
            "all_to_all of 3 fp32 in unequal parts: a part of its input has a negative size");
}

TEST(CallCheck, EachRankHasAPart) {
  const Sizes two{{3}, {0}};
  CommCall call = call_in_parts(CommKind::all_to_all, two, two);
  EXPECT_EQ(fault_of(call, GroupRank{0}, 3),
            "all_to_all of 3 fp32 in unequal parts: it gives 2 parts of its input to 3 ranks");
  call.output_parts = {};
  EXPECT_EQ(fault_of(call, GroupRank{0}, 2),
            "all_to_all of 3 fp32 in unequal parts: it gives 0 parts of its output to 2 ranks");
}

TEST(CallCheck, ARanksOwnPartIsItsOtherBuffer) {
  CommCall gather = valid_call(CommKind::all_gather, 2, 5);
  const Sizes parts{{2}, {3}};
  gather.output_parts = parts;
  EXPECT_EQ(fault_of(gather, GroupRank{0}, 2), "");
  EXPECT_EQ(fault_of(gather, GroupRank{1}, 2),
            "all_gather of 2 fp32 in unequal parts: its own part has 2 elements in and 3 out");
  CommCall scatter = valid_call(CommKind::reduce_scatter, 5, 3);
  scatter.input_parts = parts;
  EXPECT_EQ(fault_of(scatter, GroupRank{1}, 2), "");
  EXPECT_EQ(fault_of(scatter, GroupRank{0}, 2),
            "reduce_scatter of 5 fp32 in unequal parts: its own part has 2 elements in and 3 out");
}

TEST(CallCheck, OtherKindsHaveNoParts) {
  const Sizes parts{{2}, {3}};
  CommCall call = valid_call(CommKind::all_reduce, 5, 5);
  call.input_parts = parts;
  EXPECT_EQ(fault_of(call, GroupRank{0}, 2),
            "all_reduce of 5 fp32 in unequal parts: calls of its kind have no such parts");
  call = valid_call(CommKind::all_gather, 2, 5);
  call.input_parts = parts;
  EXPECT_NE(fault_of(call, GroupRank{0}, 2), "");
}

constexpr Caller k_first{GroupRank{0}, Rank{4}};
constexpr Caller k_second{GroupRank{1}, Rank{6}};

TEST(CallCheck, NamesTheMessageWhoseSizesDiffer) {
  const Sizes here_sent{{1}, {2}};
  const Sizes here_received{{1}, {3}};
  const Sizes there_received{{2}, {5}};
  const Sizes there_sent{{3}, {5}};
  const CommCall here = call_in_parts(CommKind::all_to_all, here_sent, here_received);
  CommCall there = call_in_parts(CommKind::all_to_all, there_sent, there_received);
  EXPECT_TRUE(agree(here, there));
  EXPECT_EQ(parts_mismatch(here, k_first, there, k_second), "");
  const Sizes other{{9}, {5}};
  there.output_parts = other;
  const std::string expects = "rank 4 sends 2 fp32 to rank 6, which expects 9, in an all_to_all";
  EXPECT_EQ(parts_mismatch(here, k_first, there, k_second), expects);
  EXPECT_EQ(parts_mismatch(there, k_second, here, k_first), expects);
  there.output_parts = there_received;
  there.input_parts = other;
  EXPECT_EQ(parts_mismatch(here, k_first, there, k_second),
            "rank 6 sends 9 fp32 to rank 4, which expects 3, in an all_to_all");
}

TEST(CallCheck, NamesThePartThatRanksGiveDifferentSizes) {
  const Sizes one{{1}, {2}};
  const Sizes two{{1}, {3}};
  CommCall left = valid_call(CommKind::all_gather, 1, 3);
  CommCall right = valid_call(CommKind::all_gather, 3, 4);
  left.output_parts = one;
  right.output_parts = two;
  EXPECT_TRUE(agree(left, right));
  EXPECT_EQ(parts_mismatch(left, k_first, right, k_second),
            "rank 4 gives part 1 of an all_gather 2 fp32, rank 6 gives it 3");
  right = valid_call(CommKind::all_gather, 1, 2);
  EXPECT_FALSE(agree(left, right));  // equal parts
}

/// The error of a job of two ranks that make these calls.
std::string failure_of_pair(const CommCall& first, const CommCall& second) {
  try {
    run_thread_ranks(2, [&](std::unique_ptr<Communicator> world) {
      std::array<double, 64> from{};
      std::array<double, 64> to{};
      CommCall call = world->rank().value == 0 ? first : second;
      call.input_buffer = from.data();
      call.output_buffer = to.data();
      world->run(call);
    });
  } catch (const SystemError& error) {
    return std::string(error.what()).substr(8);  // "rank 0: ": either of the two
  }
  return {};
}

TEST(ThreadMismatch, OfUnequalPartsIsNamed) {
  const Sizes one_sent{{1}, {2}};
  const Sizes one_received{{1}, {3}};
  const Sizes two_received{{4}, {5}};
  const Sizes two_sent{{3}, {5}};
  EXPECT_EQ(failure_of_pair(call_in_parts(CommKind::all_to_all, one_sent, one_received),
                            call_in_parts(CommKind::all_to_all, two_sent, two_received)),
            "rank 0 sends 2 fp32 to rank 1, which expects 4, in an all_to_all");
  CommCall first = valid_call(CommKind::reduce_scatter, 3, 1);
  CommCall second = valid_call(CommKind::reduce_scatter, 6, 5);
  first.input_parts = one_sent;
  const Sizes longer{{1}, {5}};
  second.input_parts = longer;
  EXPECT_EQ(failure_of_pair(first, second),
            "rank 0 gives part 1 of a reduce_scatter 2 fp32, rank 1 gives it 5");
}

TEST(ThreadMismatch, OfGathersIsNamed) {
  const std::string failure =
      failure_of_pair(other_call(OtherCall::gather, 3, 6, 0), other_call(OtherCall::gather, 4, 0, 0));
  EXPECT_TRUE(
      failure == "rank 1 calls gather of 4 fp32 (root 0) where rank 0 calls gather of 3 fp32 (root 0)" ||
      failure == "rank 0 calls gather of 3 fp32 (root 0) where rank 1 calls gather of 4 fp32 (root 0)")
      << failure;
}

TEST(ThreadMismatch, OfAnAverageOfIntegersIsNamed) {
  CommCall call = valid_call(CommKind::all_reduce, 4, 4);
  call.dtype = DType::int32;
  call.reduction = ReduceOp::avg;
  EXPECT_EQ(failure_of_pair(call, call),
            "all_reduce of 4 int32 (avg): only floating-point numbers have an average here; take their sum");
}

}  // namespace
}  // namespace commlens
