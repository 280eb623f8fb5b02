// What the reproduction adds to the paper: its future work and jobs of today. Closed forms are worked out by
// hand.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/app/reproduce/items.hpp"
#include "commlens/base/test_support.hpp"
#include "tests/reproduce/figure_rows.hpp"

namespace commlens::study {
namespace {

using Fields = std::map<std::string, std::string>;

/// A cell as CSV has it.
std::string plain(const Json& value) {
  return value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump();
}

/// Rows of figures that a reproduction without training has written.
class FutureWork : public ::testing::Test {
 protected:
  static std::vector<Fields> rows(const std::string& id, const Fields& where) {
    Where wanted;
    for (const auto& [key, value] : where) {
      wanted[key] = value;
    }
    std::vector<Fields> found;
    for (const Where& row : Rows(shared_pages().figure(id)).all(wanted)) {
      Fields& fields = found.emplace_back();
      for (const auto& [key, value] : row) {
        fields[key] = plain(value);
      }
    }
    return found;
  }

  static std::int64_t sum(const std::string& id, const Fields& where, const std::string& key) {
    std::int64_t total = 0;
    for (const Fields& row : rows(id, where)) {
      total += std::stoll(row.at(key));
    }
    return total;
  }

  /// What the rows send that are equal to the closed form.
  static std::int64_t equal(const std::string& id, const std::string& model, const std::string& setting,
                            const std::string& framework) {
    return sum(id,
               {{"model", model},
                {"setting", setting},
                {"framework", framework},
                {"part", "equal to the closed form"}},
               "wire_bytes_per_rank");
  }
};

TEST_F(FutureWork, ExpertsAreAsTheClosedForm) {
  // L = 32 layers, 4 exchanges of n k h = 4,096 x 2 x 4,096 elements of 2 bytes, (ep-1)/ep of them.
  for (const auto& [setting, wire] : std::map<std::string, std::int64_t>{
           {"ep = 2", 4294967296}, {"ep = 4", 6442450944}, {"ep = 8", 7516192768}}) {
    const std::string model = "Mixtral 8x7B";
    EXPECT_EQ(equal("ep", model, setting, "Megatron 0.19 alltoall"), wire) << setting;
    EXPECT_EQ(equal("ep", model, setting, "torchtitan 0.3.0"), wire) << setting;
    EXPECT_EQ(equal("ep", model, setting, "torchtitan 0.3.0, selective recomputation"), wire / 2 * 3)
        << setting;
    EXPECT_EQ(equal("ep", model, setting, "Megatron 0.19 capacity"), wire / 4 * 5) << setting;
  }
  // L = 58 layers with experts, 4 x 4,096 x 8 x 7,168 x 2 bytes, 63/64 of it.
  EXPECT_EQ(equal("ep", "DeepSeek-V3", "ep = 64", "torchtitan 0.3.0"), 107281907712);
}

TEST_F(FutureWork, AnotherDispatcherIsNamedByItsRule) {
  const Fields where = {{"setting", "ep = 8"}, {"framework", "Megatron 0.19 allgather"}};
  EXPECT_EQ(equal("ep", "Mixtral 8x7B", "ep = 8", "Megatron 0.19 allgather"), 0);
  std::map<std::string, std::int64_t> wire;
  for (const Fields& row : rows("ep", where)) {
    wire[row.at("part") + " " + row.at("rule")] += std::stoll(row.at("wire_bytes_per_rank"));
  }
  // L = 32 layers, n h (ep-1) elements of 2 bytes, gathered and scattered once in each direction.
  EXPECT_EQ(wire["not the closed form megatron.moe_gather"], 2 * 7516192768);
  EXPECT_EQ(wire["not the closed form megatron.moe_reduce_scatter"], 2 * 7516192768);
}

/// The rows of a figure that no file has.
std::vector<Fields> rows_of(const Figure& figure, const Fields& where) {
  std::vector<Fields> found;
  for (std::size_t row = 0; row < figure.rows(); ++row) {
    Fields fields;
    for (const FigureColumn& column : figure.columns) {
      fields[column.name] = column.plain(row);
    }
    const bool fits =
        std::ranges::all_of(where, [&](const auto& one) { return fields[one.first] == one.second; });
    if (fits) {
      found.push_back(std::move(fields));
    }
  }
  return found;
}

TEST(ExpertImbalance, ASkewedRouterFillsOneRankAndACapacityBoundsIt) {
  const test_support::ScratchDirectory scratch;
  Study study;
  Result<RecordedDispatches> made = recorded_dispatches(scratch.path("dispatches"));
  ASSERT_TRUE(made) << made.error().message;
  study.add(std::move(*made));
  const ItemResult item = expert_imbalance(study);
  ASSERT_TRUE(item) << item.error().reason;
  // Copies of a rank for each expert: 4,096 x 2 = 8,192 over 1/e gives 3014 1507 1005 753 603 502 431 377,
  // with C = 1.25 at most 1,280 each, 6,231 together. Eight ranks, tokens of 4,096 elements of 2 bytes.
  struct Fullest {
    const char* setting;
    std::int64_t sent;      // copies of a rank
    std::int64_t received;  // of these, by rank 0 of each
    std::int64_t last;      // by rank 7
    double dropped;
  };
  const std::vector<Fullest> expected = {{"balanced", 8192, 1024, 1024, 0},
                                         {"Zipf 1", 8192, 3014, 377, 0},
                                         {"Zipf 1, C = 1.25", 6231, 1280, 377, 1961.0 / 8192},
                                         {"Zipf 1, C = 1.25, padded", 10240, 1280, 1280, 1961.0 / 8192}};
  for (const auto& [series, token] :
       {std::pair("closed form", 8192), {"closed form, h = 16", 32}, {"recorded here, h = 16", 32}}) {
    for (const Fullest& setting : expected) {
      const auto of_rank = [&](const char* rank) {
        const std::vector<Fields> found =
            rows_of(item->whole, {{"series", series}, {"setting", setting.setting}, {"rank", rank}});
        EXPECT_EQ(found.size(), 1U) << series << setting.setting << rank;
        return found.empty() ? Fields() : found.front();
      };
      Fields first = of_rank("0");
      EXPECT_EQ(first["message_bytes_per_rank"], std::to_string(setting.sent * token)) << setting.setting;
      EXPECT_EQ(first["received_bytes_per_rank"], std::to_string(8 * setting.received * token))
          << setting.setting;
      EXPECT_DOUBLE_EQ(std::stod(first["imbalance"]), static_cast<double>(setting.received) / 1024);
      EXPECT_NEAR(std::stod(first["dropped_share"]), setting.dropped, 1e-6);
      EXPECT_EQ(of_rank("7")["received_bytes_per_rank"], std::to_string(8 * setting.last * token))
          << setting.setting;
      EXPECT_EQ(first["evidence"],
                series == std::string("recorded here, h = 16") ? "recorded here" : "exact theory");
    }
  }
}

TEST_F(FutureWork, ContextsAreAsTheClosedForms) {
  const std::string model = "Llama-3 8B";
  // L = 32 layers, keys of s h_kv = 8,192 x 1,024 elements of 2 bytes: 512 MiB in all layers.
  constexpr std::int64_t keys = 536870912;
  for (const std::int64_t ranks : {2, 4, 8}) {
    const std::string setting = "cp = " + std::to_string(ranks);
    const std::int64_t part = keys / ranks * (ranks - 1);
    EXPECT_EQ(equal("cp", model, setting, "Megatron 0.19, p2p"), 6 * part) << setting;
    EXPECT_EQ(equal("cp", model, setting, "torchtitan 0.3.0"), 4 * part) << setting;
    EXPECT_EQ(equal("cp", model, setting, "Megatron 0.19, all_gather"), 6 * part) << setting;
    // Queries and outputs are four times the keys: 2 (2 x 4 + 2) parts of 1/c.
    for (const char* const framework : {"Megatron 0.19, a2a", "DeepSpeed 0.19.8, Ulysses"}) {
      EXPECT_EQ(equal("cp", model, setting, framework), 20 * part / ranks) << setting << framework;
    }
    // PyTorch gathers keys and values of 32 heads instead of 8, twice.
    EXPECT_EQ(sum("cp",
                  {{"setting", setting},
                   {"framework", "PyTorch 2.15, all-gather"},
                   {"part", "not the closed form"},
                   {"rule", "context.gather_keys"}},
                  "wire_bytes_per_rank"),
              16 * part)
        << setting;
  }
}

/// All notes of a figure, a line each.
std::string notes_of(const std::string& id) {
  const Json figure = shared_pages().figure(id);
  std::string notes;
  for (const Json& note : figure.at("notes")) {
    notes += note.get<std::string>() + "\n";
  }
  return notes;
}

TEST_F(FutureWork, NotesNameEveryRuleWhereAFrameworkDeparts) {
  int departures = 0;
  for (const char* const id : {"ep", "cp", "hsdp"}) {
    const std::string notes = notes_of(id);
    for (const Fields& row : rows(id, {{"part", "not the closed form"}})) {
      EXPECT_NE(notes.find(row.at("rule")), std::string::npos) << id << ": " << row.at("rule");
      EXPECT_NE(notes.find(row.at("framework") + ": not the closed form"), std::string::npos)
          << id << ": " << row.at("framework");
      EXPECT_FALSE(row.at("source").empty()) << id << ": " << row.at("rule");
      ++departures;
    }
  }
  EXPECT_GT(departures, 0);
  // Eight ranks, 7/8 of 16 GiB: keys and values of 32 heads are 4 GiB, gathered twice, and their gradients in
  // fp32 8 GiB.
  EXPECT_NE(notes_of("cp").find("14.00 GiB with cp = 8 where it has 2.62 GiB"), std::string::npos)
      << notes_of("cp");
}

TEST_F(FutureWork, HybridShardingIsAsTheClosedForm) {
  const std::string model = "Llama-3 8B";
  // P = 8,030,261,248 in 2 bytes: 3 P 7/8 inside, 2 P/8 (r-1)/r between.
  for (const char* const setting : {"g = 8, r = 2", "g = 8, r = 4"}) {
    EXPECT_EQ(equal("hsdp", model, setting, "PyTorch 2.15 fully_shard, inside a group"), 42158871552)
        << setting;
  }
  EXPECT_EQ(equal("hsdp", model, "g = 8, r = 2", "PyTorch 2.15 fully_shard, between replicas"), 2007565312);
  EXPECT_EQ(equal("hsdp", model, "g = 8, r = 4", "PyTorch 2.15 fully_shard, between replicas"), 3011347968);
}

TEST_F(FutureWork, QuantisedZeroSendsLessBetweenNodes) {
  for (const char* const framework : {"DeepSpeed 0.14.0", "DeepSpeed 0.19.8", "commlens"}) {
    const auto between = [&](const char* setting) {
      return sum("zeropp", {{"framework", framework}, {"setting", setting}},
                 "wire_inter_node_bytes_per_rank");
    };
    EXPECT_GT(between("ZeRO-3"), between("ZeRO-3 with hpZ")) << framework;
    EXPECT_GT(between("ZeRO-3 with hpZ"), 2 * between("ZeRO++")) << framework;
  }
}

TEST_F(FutureWork, JobsOfTodayHaveVolumesAndTimes) {
  std::set<std::string> jobs;
  for (const Fields& row : rows("jobs-today", {})) {
    jobs.insert(row.at("bar"));
  }
  EXPECT_EQ(jobs.size(), 17U);
  // Mixtral's recipe on rank 0: 8 layers of its stage, 32 micro-batches, 4 exchanges of 64 MiB, and of 16 KiB
  // of probabilities half as many.
  EXPECT_EQ(sum("jobs-today", {{"bar", "Mixtral 8x7B, Megatron 0.19"}, {"op", "all_to_all"}, {"axis", "ep"}},
                "message_bytes_per_rank"),
            1024 * 67108864LL + 512 * 16384LL);
  for (const char* const machine : {"frontier", "aurora", "vista", "dgx-h100", "gb200"}) {
    const std::vector<Fields> iterations = rows(std::string("jobs-") + machine, {{"part", "iteration"}});
    EXPECT_EQ(iterations.size(), machine == std::string("vista") ? 15U : 17U)
        << machine;  // Vista has 600 GPUs
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
