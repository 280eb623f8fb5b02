#include "commlens/cli/layout_flags.hpp"

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

namespace commlens {
namespace {

Result<std::vector<Combination>> parsed(const std::string& text) {
  CLI::App app;
  LayoutFlags flags;
  flags.declare(app, LayoutFlags::Verb::predict);
  app.parse(text);
  return flags.combinations();
}

TEST(LayoutFlags, NothingGivenIsOneCombinationThatSetsNothing) {
  const auto combinations = parsed("").value();
  ASSERT_EQ(combinations.size(), 1u);
  EXPECT_FALSE(combinations[0].overrides.tp.has_value());
  EXPECT_TRUE(combinations[0].swept.empty());
}

TEST(LayoutFlags, SetTheirMember) {
  const Overrides flags =
      parsed(
          "--ranks 64 --dp 4 --tp 2 --sp off --pp 8 --cp 1 --ep 2 --rank-order tp-cp-ep-pp-dp --zero 2 "
          "--micro-batch 3 "
          "--micro-batches 5 --global-batch 80 --seq 4096 --vocab 1000 --dtype bf16 --recompute full "
          "--schedule "
          "interleaved --attention flash --virtual-stages 6 --bucket 25MiB --iterations 7 --layers 8 "
          "--hidden 9 --heads 10 "
          "--clip "
          "0.5 --persistence-threshold 0 --hpz 11 --qwz --qgz --deepspeed-like --partition-activations")
          .value()[0]
          .overrides;
  EXPECT_EQ(flags.ranks, 64);
  EXPECT_EQ(flags.dp, 4);
  EXPECT_EQ(flags.tp, 2);
  EXPECT_EQ(flags.sp, false);
  EXPECT_EQ(flags.pp, 8);
  EXPECT_EQ(flags.cp, 1);
  EXPECT_EQ(flags.ep, 2);
  EXPECT_EQ(flags.rank_order, "tp-cp-ep-pp-dp");
  EXPECT_EQ(flags.zero, 2);
  EXPECT_EQ(flags.micro_batch, 3);
  EXPECT_EQ(flags.micro_batches, 5);
  EXPECT_EQ(flags.global_batch, 80);
  EXPECT_EQ(flags.seq, 4096);
  EXPECT_EQ(flags.vocab, 1000);
  EXPECT_EQ(flags.dtype, DType::bf16);
  EXPECT_EQ(flags.recompute, Recompute::full);
  EXPECT_EQ(flags.schedule, Schedule::interleaved);
  EXPECT_EQ(flags.attention, Attention::flash);
  EXPECT_EQ(flags.virtual_stages, 6);
  EXPECT_EQ(flags.bucket, Bytes{26'214'400});
  EXPECT_EQ(flags.iterations, 7);
  EXPECT_EQ(flags.layers, 8);
  EXPECT_EQ(flags.hidden, 9);
  EXPECT_EQ(flags.heads, 10);
  EXPECT_EQ(flags.clip, 0.5);
  EXPECT_EQ(flags.persistence_threshold, 0);
  EXPECT_EQ(flags.hpz, 11);
  EXPECT_TRUE(flags.qwz);
  EXPECT_TRUE(flags.qgz);
  EXPECT_TRUE(flags.all_reduce_gradients);
  EXPECT_TRUE(flags.partition_activations);
}

TEST(LayoutFlags, ListsMakeEveryCombination) {
  const auto combinations = parsed("--seq 512,1024 --zero 1,3 --tp 2").value();
  ASSERT_EQ(combinations.size(), 4u);
  using Swept = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(combinations[1].swept, (Swept{{"--zero", "1"}, {"--seq", "1024"}}));
  EXPECT_EQ(combinations[2].overrides.zero, 3);
  EXPECT_EQ(combinations[2].overrides.seq, 512);
  EXPECT_EQ(combinations[3].overrides.tp, 2);
}

TEST(LayoutFlags, RefuseWhatIsNoValue) {
  for (const char* text : {"--tp 0", "--tp x", "--tp 1,,2", "--zero 4", "--zero -1", "--dtype int8",
                           "--recompute some", "--attention paged", "--schedule none", "--bucket 1.5B",
                           "--clip -1", "--clip x", "--persistence-threshold -1", "--rank-order tp-tp",
                           "--rank-order x.y", "--hpz 0", "--sp 4", "--ranks 99999999999999999999"}) {
    const auto combinations = parsed(text);
    ASSERT_FALSE(combinations.has_value()) << text;
    EXPECT_EQ(combinations.error().message.rfind("--", 0), 0u) << combinations.error().message;
  }
}

TEST(LayoutFlags, RefuseMoreCombinationsThanAnyoneReads) {
  std::string list = "1";
  for (int value = 2; value <= 101; ++value) {
    list += "," + std::to_string(value);
  }
  EXPECT_FALSE(parsed("--seq " + list + " --micro-batch " + list).has_value());
}

}  // namespace
}  // namespace commlens
