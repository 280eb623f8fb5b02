// What the reproduction adds to the paper: its future work and jobs of today. Closed forms are worked out by
// hand.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/app/reproduce/items.hpp"
#include "commlens/base/test_support.hpp"

namespace commlens::study {
namespace {

using Fields = std::map<std::string, std::string>;

/// An item's rows as its CSV has them.
class FutureWork : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch_ = std::make_unique<test_support::ScratchDirectory>();
    study_ = std::make_unique<Study>();
    study_->keep_jobs_in(scratch_->path(""));
  }
  static void TearDownTestSuite() {
    study_.reset();
    scratch_.reset();
  }

  static std::vector<Fields> rows(ItemResult (*make)(Study&), const Fields& where) {
    const ItemResult item = make(*study_);
    EXPECT_TRUE(item) << (item ? "" : item.error().reason);
    std::vector<Fields> found;
    for (std::size_t row = 0; item && row < item->whole.rows(); ++row) {
      Fields fields;
      for (const FigureColumn& column : item->whole.columns) {
        fields[column.name] = column.plain(row);
      }
      bool fits = true;
      for (const auto& [key, value] : where) {
        fits = fits && fields[key] == value;
      }
      if (fits) {
        found.push_back(fields);
      }
    }
    return found;
  }

  static std::int64_t sum(ItemResult (*make)(Study&), const Fields& where, const std::string& key) {
    std::int64_t total = 0;
    for (const Fields& row : rows(make, where)) {
      total += std::stoll(row.at(key));
    }
    return total;
  }

  /// What the rows send that are equal to the closed form.
  static std::int64_t equal(ItemResult (*make)(Study&), const std::string& model, const std::string& setting,
                            const std::string& framework) {
    return sum(make,
               {{"model", model},
                {"setting", setting},
                {"framework", framework},
                {"part", "equal to the closed form"}},
               "wire_bytes_per_rank");
  }

  static std::unique_ptr<test_support::ScratchDirectory> scratch_;
  static std::unique_ptr<Study> study_;
};
std::unique_ptr<test_support::ScratchDirectory> FutureWork::scratch_;
std::unique_ptr<Study> FutureWork::study_;

TEST_F(FutureWork, ExpertsAreAsTheClosedForm) {
  // L = 32 layers, 4 exchanges of n k h = 4,096 x 2 x 4,096 elements of 2 bytes, (ep-1)/ep of them.
  for (const auto& [setting, wire] : std::map<std::string, std::int64_t>{
           {"ep = 2", 4294967296}, {"ep = 4", 6442450944}, {"ep = 8", 7516192768}}) {
    const std::string model = "Mixtral 8x7B";
    EXPECT_EQ(equal(expert_parallelism, model, setting, "Megatron 0.19 alltoall"), wire) << setting;
    EXPECT_EQ(equal(expert_parallelism, model, setting, "torchtitan 0.3.0"), wire) << setting;
    EXPECT_EQ(equal(expert_parallelism, model, setting, "torchtitan 0.3.0, selective recomputation"),
              wire / 2 * 3)
        << setting;
    EXPECT_EQ(equal(expert_parallelism, model, setting, "Megatron 0.19 capacity"), wire / 4 * 5) << setting;
  }
  // L = 58 layers with experts, 4 x 4,096 x 8 x 7,168 x 2 bytes, 63/64 of it.
  EXPECT_EQ(equal(expert_parallelism, "DeepSeek-V3", "ep = 64", "torchtitan 0.3.0"), 107281907712);
}

TEST_F(FutureWork, AnotherDispatcherIsNamedByItsRule) {
  const Fields where = {{"setting", "ep = 8"}, {"framework", "Megatron 0.19 allgather"}};
  EXPECT_EQ(equal(expert_parallelism, "Mixtral 8x7B", "ep = 8", "Megatron 0.19 allgather"), 0);
  std::map<std::string, std::int64_t> wire;
  for (const Fields& row : rows(expert_parallelism, where)) {
    wire[row.at("part") + " " + row.at("rule")] += std::stoll(row.at("wire_bytes_per_rank"));
  }
  // L = 32 layers, n h (ep-1) elements of 2 bytes, gathered and scattered once in each direction.
  EXPECT_EQ(wire["not the closed form megatron.moe_gather"], 2 * 7516192768);
  EXPECT_EQ(wire["not the closed form megatron.moe_reduce_scatter"], 2 * 7516192768);
}

TEST_F(FutureWork, ContextsAreAsTheClosedForms) {
  const std::string model = "Llama-3 8B";
  // L = 32 layers, keys of s h_kv = 8,192 x 1,024 elements of 2 bytes: 512 MiB in all layers.
  constexpr std::int64_t keys = 536870912;
  for (const std::int64_t ranks : {2, 4, 8}) {
    const std::string setting = "cp = " + std::to_string(ranks);
    const std::int64_t part = keys / ranks * (ranks - 1);
    EXPECT_EQ(equal(context_parallelism, model, setting, "Megatron 0.19, p2p"), 6 * part) << setting;
    EXPECT_EQ(equal(context_parallelism, model, setting, "torchtitan 0.3.0"), 4 * part) << setting;
    EXPECT_EQ(equal(context_parallelism, model, setting, "Megatron 0.19, all_gather"), 6 * part) << setting;
    // Queries and outputs are four times the keys: 2 (2 x 4 + 2) parts of 1/c.
    for (const char* const framework : {"Megatron 0.19, a2a", "DeepSpeed 0.19.8, Ulysses"}) {
      EXPECT_EQ(equal(context_parallelism, model, setting, framework), 20 * part / ranks)
          << setting << framework;
    }
    // PyTorch gathers keys and values of 32 heads instead of 8, twice.
    EXPECT_EQ(sum(context_parallelism,
                  {{"setting", setting},
                   {"framework", "PyTorch 2.15, all-gather"},
                   {"part", "not the closed form"},
                   {"rule", "context.gather_keys"}},
                  "wire_bytes_per_rank"),
              16 * part)
        << setting;
  }
}

TEST_F(FutureWork, HybridShardingIsAsTheClosedForm) {
  const std::string model = "Llama-3 8B";
  // P = 8,030,261,248 in 2 bytes: 3 P 7/8 inside, 2 P/8 (r-1)/r between.
  for (const char* const setting : {"g = 8, r = 2", "g = 8, r = 4"}) {
    EXPECT_EQ(equal(hybrid_sharding, model, setting, "PyTorch 2.15 fully_shard, inside a group"), 42158871552)
        << setting;
  }
  EXPECT_EQ(equal(hybrid_sharding, model, "g = 8, r = 2", "PyTorch 2.15 fully_shard, between replicas"),
            2007565312);
  EXPECT_EQ(equal(hybrid_sharding, model, "g = 8, r = 4", "PyTorch 2.15 fully_shard, between replicas"),
            3011347968);
}

TEST_F(FutureWork, QuantisedZeroSendsLessBetweenNodes) {
  for (const char* const framework : {"DeepSpeed 0.14.0", "DeepSpeed 0.19.8", "commlens"}) {
    const auto between = [&](const char* setting) {
      return sum(quantised_zero, {{"framework", framework}, {"setting", setting}},
                 "wire_inter_node_bytes_per_rank");
    };
    EXPECT_GT(between("ZeRO-3"), between("ZeRO-3 with hpZ")) << framework;
    EXPECT_GT(between("ZeRO-3 with hpZ"), 2 * between("ZeRO++")) << framework;
  }
}

TEST_F(FutureWork, JobsOfTodayHaveVolumesAndTimes) {
  std::set<std::string> jobs;
  for (const Fields& row : rows(jobs_today, {})) {
    jobs.insert(row.at("bar"));
  }
  EXPECT_EQ(jobs.size(), 17U);
  // Mixtral's recipe on rank 0: 8 layers of its stage, 32 micro-batches, 4 exchanges of 64 MiB, and of 16 KiB
  // of probabilities half as many.
  EXPECT_EQ(sum(jobs_today, {{"bar", "Mixtral 8x7B, Megatron 0.19"}, {"op", "all_to_all"}, {"axis", "ep"}},
                "message_bytes_per_rank"),
            1024 * 67108864LL + 512 * 16384LL);
  // The others are in the pages that tests of the paper make.
  const std::map<std::string, ItemResult (*)(Study&)> machines = {{"Vista", jobs_vista},
                                                                  {"DGX H100", jobs_dgx_h100}};
  for (const auto& [machine, make] : machines) {
    const std::vector<Fields> iterations = rows(make, {{"part", "iteration"}});
    EXPECT_EQ(iterations.size(), machine == "Vista" ? 15U : 17U) << machine;  // Vista has 600 GPUs
    for (const Fields& row : iterations) {
      EXPECT_EQ(row.at("evidence"), "simulated") << machine;
      EXPECT_FALSE(row.at("provenance").empty()) << machine;
      EXPECT_LE(std::stod(row.at("low_s")), std::stod(row.at("time_s"))) << machine;
      EXPECT_GE(std::stod(row.at("high_s")), std::stod(row.at("time_s"))) << machine;
    }
  }
}

}  // namespace
}  // namespace commlens::study
