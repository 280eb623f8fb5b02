// Every item of the paper by the files that one reproduction without training writes: values of
// tests/facts/expected.json, which were worked out from the configurations of GPT-NeoX and the equations.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/app/reproduce.hpp"
#include "commlens/trace/test_support.hpp"
#include "tests/reproduce/figure_rows.hpp"

namespace commlens {
namespace {

constexpr const char* k_items[] = {
    "takeaways",     "fig-1",       "fig-2",      "fig-3",         "fig-4",      "fig-5",
    "fig-6",         "fig-7",       "fig-8",      "fig-9",         "fig-10",     "fig-11",
    "fig-12",        "fig-13",      "fig-14",     "fig-15",        "table-1",    "table-2",
    "eq-1",          "eq-2",        "eq-3",       "eq-4",          "eq-5",       "footnotes",
    "today",         "ep",          "cp",         "hsdp",          "zeropp",     "jobs-today",
    "jobs-frontier", "jobs-aurora", "jobs-vista", "jobs-dgx-h100", "jobs-gb200", "ep-imbalance"};

const Json& expected() {
  static const Json values = [] {
    const char* const source = std::getenv("COMMLENS_SOURCE_DIR");
    return json_of(std::filesystem::path(source == nullptr ? "." : source) / "tests/facts/expected.json");
  }();
  return values;
}

class Paper : public ::testing::Test {
 protected:
  static std::filesystem::path file(const std::string& name) { return shared_pages().file(name); }
  static std::string text_of(const std::string& name) { return test_support::content_of(file(name)); }
  static Json figure(const std::string& id) { return shared_pages().figure(id); }
  static Rows rows(const std::string& id) { return Rows(figure(id)); }
};

const char* const k_deepspeed_calls = "DeepSpeed 0.14.0";
const char* const k_neox_calls = "GPT-NeoX on DeepSpeed 0.14.0";

TEST_F(Paper, HasEveryItemOfTheChecklist) {
  // Calls are timed, and processes started, where models are trained.
  EXPECT_EQ(shared_pages().result.left_out,
            (std::vector<std::string>{
                "interconnect: calls were not timed: that takes a run without --no-train",
                "cold-receive: no stages were trained: that takes a run without --no-train"}));
  const std::string html = text_of("index.html");
  const std::string markdown = text_of("paper.md");
  for (const char* const id : k_items) {
    EXPECT_TRUE(std::filesystem::exists(file(fmt::format("figures/{}.json", id)))) << id;
    EXPECT_TRUE(std::filesystem::exists(file(fmt::format("figures/{}.csv", id)))) << id;
    const std::string title = figure(id).at("title");
    EXPECT_NE(markdown.find("### " + title), std::string::npos) << id;
  }
  EXPECT_NE(html.find("Figure 15"), std::string::npos);
  EXPECT_EQ(html.find("https://cdn"), std::string::npos);
}

TEST_F(Paper, HasAPageOfEachMachine) {
  for (const std::string id : {"frontier", "aurora", "vista", "dgx-h100", "gb200"}) {
    const std::string page = text_of("jobs-" + id + ".html");
    EXPECT_NE(text_of("index.html").find("\"jobs-" + id + ".html\""), std::string::npos) << id;
    EXPECT_NE(page.find("<a href=\"index.html\">"), std::string::npos) << id;
    EXPECT_NE(page.find("\"jobs-" + id + "-c\""), std::string::npos) << id;
    EXPECT_NE(page.find("jobs-" + id + "-machine"), std::string::npos) << id;
  }
}

TEST_F(Paper, SaysOfEverySeriesWhatItIs) {
  const std::set<std::string> known = {"exact theory", "recorded here", "recorded from the framework",
                                       "simulated"};
  for (const char* const id : k_items) {
    const Json made = figure(id);
    EXPECT_GT(made.at("rows").get<int>(), 0) << id;
    EXPECT_FALSE(made.at("notes").empty()) << id;
    for (const Where& row : Rows(made).all({})) {
      EXPECT_TRUE(known.contains(row.at("evidence").get<std::string>())) << id;
      EXPECT_FALSE(row.at("series").get<std::string>().empty()) << id;
      EXPECT_FALSE(row.at("provenance").get<std::string>().empty()) << id;
    }
  }
}

TEST_F(Paper, Equation1CountsParameters) {
  const Rows found = rows("eq-1");
  for (const auto& [model, facts] : expected().at("models").items()) {
    EXPECT_EQ(found.one({{"model", model}, {"series", "Eq. 1 as printed"}}, "elements"), facts.at("P_eq1"))
        << model;
    EXPECT_EQ(found.one({{"model", model}, {"series", "Eq. 1 corrected"}}, "elements"), facts.at("P_exact"))
        << model;
  }
  // DeepSpeed broadcast all parameters of 19M at the start of the recorded run.
  EXPECT_EQ(found.one({{"evidence", "recorded from the framework"}}, "elements"), 70426624);
}

TEST_F(Paper, Figure10AndEquations2And3HaveTheVolumes) {
  for (const char* const id : {"fig-10", "eq-2", "eq-3"}) {
    const Rows found = rows(id);
    for (const auto& [model, facts] : expected().at("fig8_fig10").items()) {
      for (const char* const devices : {"8", "16"}) {
        for (const auto& [scheme, key] : std::map<std::string, std::string>{{"DDP", "DDP"},
                                                                            {"ZeRO-1", "ZeRO1_paper"},
                                                                            {"ZeRO-2", "ZeRO2_paper"},
                                                                            {"ZeRO-3", "ZeRO3_paper"}}) {
          if ((id == std::string("eq-2") && scheme == "ZeRO-3") ||
              (id == std::string("eq-3") && scheme != "ZeRO-3")) {
            continue;
          }
          const Where row = {{"model", model}, {"setting", scheme}, {"rank_count", std::stoi(devices)}};
          Where printed = row;
          printed["series"] = "Eqs 2 and 3 as printed";
          EXPECT_EQ(found.one(printed, "elements_per_rank"), facts["eq1_P"][devices][key]["elements"])
              << id << model << scheme;
          EXPECT_EQ(found.one(printed, "wire_bytes_per_rank"), facts["eq1_P"][devices][key]["bytes_fp16"])
              << id << model << scheme;
          Where exact = row;
          exact["series"] = "Eqs 2 and 3, true P";
          EXPECT_EQ(found.one(exact, "elements_per_rank"), facts["exact_P"][devices][key]["elements"])
              << id << model << scheme;
        }
      }
    }
  }
}

TEST_F(Paper, Figure10HasDeepSpeedsThreeThirdsOfZero1) {
  const Rows found = rows("fig-10");
  for (const auto& [model, facts] : expected().at("fig8_fig10").items()) {
    for (const char* const scheme : {"ZeRO-1", "ZeRO-2"}) {
      const double wire = found.one(
          {{"model", model}, {"setting", scheme}, {"rank_count", 16}, {"series", k_deepspeed_calls}},
          "wire_bytes_per_rank");
      const double theory =
          facts["exact_P"]["16"]["ZeRO12_deepspeed014_allreduce_plus_allgather"]["bytes_fp16"];
      // Norm and overflow flag are the only other calls: 2 x 4 bytes and 1.
      EXPECT_GE(wire, theory) << model << scheme;
      EXPECT_LE(wire, theory + 32) << model << scheme;
    }
  }
  // The recorded run of DeepSpeed: 19M, ZeRO-1 on four ranks in fp32: all_reduce and all_gather of P.
  const double recorded =
      found.one({{"setting", "ZeRO-1"}, {"evidence", "recorded from the framework"}}, "wire_bytes_per_rank");
  EXPECT_NEAR(recorded, 3.0 * 70426624 * 4 * 3 / 4, 32);
}

TEST_F(Paper, Figures7And8HaveTheOperationsOfZero) {
  const Rows volumes = rows("fig-8");
  const Rows shares = rows("fig-7");
  const Json& facts = expected().at("fig7_fig8_deepspeed_logger_view").at("values");
  for (const auto& [model, by_devices] : facts.items()) {
    const char* const devices = model == "13B" ? "16" : "8";
    const Json& one = by_devices.at(devices);
    for (const char* const scheme : {"ZeRO-1", "ZeRO-2"}) {
      const Where row = {{"model", model}, {"setting", scheme}, {"series", k_deepspeed_calls}};
      const auto value = [&](const char* op, const char* key) {
        Where with_op = row;
        with_op["op"] = op;
        return volumes.one(with_op, key).get<double>();
      };
      const double reduced = one["ZeRO1/2"]["all_reduce_bytes"];
      EXPECT_NEAR(value("all_reduce", "message_bytes_per_rank"), 10 * reduced, 10 * 16) << model << scheme;
      EXPECT_EQ(value("all_gather", "logged_bytes_per_rank"),
                10 * one["ZeRO1/2"]["all_gather_into_tensor_bytes_shard"].get<double>())
          << model << scheme;
      EXPECT_EQ(value("all_gather", "message_bytes_per_rank"),
                10 * one["ZeRO1/2"]["all_gather_total_bytes"].get<double>())
          << model << scheme;
      EXPECT_EQ(value("broadcast", "message_bytes_per_rank"), one["init_broadcast_bytes"].get<double>())
          << model << scheme;
      for (const auto& [op, percent] : one["pct_fig7_style_total_volume_N_iters"]["10"]["ZeRO1/2"].items()) {
        Where with_op = row;
        with_op["op"] = op;
        EXPECT_NEAR(100 * shares.one(with_op, "part_share").get<double>(), percent.get<double>(), 0.006)
            << model << op;
      }
    }
    const Where zero3 = {
        {"model", model}, {"setting", "ZeRO-3"}, {"series", k_deepspeed_calls}, {"op", "reduce_scatter"}};
    EXPECT_EQ(volumes.one(zero3, "message_bytes_per_rank").get<double>(),
              10 * one["ZeRO3"]["reduce_scatter_tensor_bytes_full"].get<double>())
        << model;
  }
}

TEST_F(Paper, Figure9HasEachSizeOfGathers) {
  const Rows found = rows("fig-9");
  for (const auto& [model, facts] : expected().at("fig9_zero3_allgather_sizes_d16").at("models").items()) {
    std::map<std::int64_t, std::int64_t> alone;
    std::map<std::int64_t, std::int64_t> small;
    for (const Json& tensor : facts.at("tensors")) {
      const std::int64_t size = tensor.at("shard_bytes_fp16_d16");
      const bool is_kept = tensor.at("persistent(<1e5)");
      const std::int64_t count = tensor.at("count");
      alone[size] += is_kept ? count : 2 * count;
      if (is_kept) {
        small[size] += count;
      }
    }
    std::int64_t persistent = 0;
    for (const auto& [size, calls] : alone) {
      EXPECT_EQ(found.one({{"model", model}, {"series", "each tensor alone"}, {"logged_size_bytes", size}},
                          "calls_per_rank"),
                calls)
          << model << " " << size;
    }
    for (const auto& [size, calls] : small) {
      EXPECT_EQ(found.one({{"model", model}, {"series", k_deepspeed_calls}, {"logged_size_bytes", size}},
                          "calls_per_rank"),
                calls)
          << model << " " << size;
      persistent += calls;
    }
    EXPECT_EQ(persistent, facts.at("persistent_tensors")) << model;
  }
}

TEST_F(Paper, Figure13AndEquation4HaveTheMessagesOfStages) {
  for (const char* const id : {"fig-13", "eq-4"}) {
    const Rows found = rows(id);
    for (const auto& [model, facts] : expected().at("fig11a_13a_pipeline").at("models").items()) {
      for (const auto& [stages, one] : facts.at("by_p").items()) {
        const Where row = {{"model", model}, {"setting", "p = " + stages}, {"panel", "a"}};
        Where printed = row;
        printed["series"] = "Eqs 4 and 5 as printed";
        EXPECT_EQ(found.one(printed, "elements"), one.at("eq4_elements")) << id << model << stages;
        Where rules = row;
        rules["series"] = k_neox_calls;
        if (!found.all(rules).empty()) {
          EXPECT_EQ(found.one(rules, "wire_bytes"), one.at("deepspeed_aggregate_send_bytes_one_replica"))
              << id << model << stages;
        }
      }
    }
    EXPECT_FALSE(found.all({{"model", "1.3B"}, {"setting", "p = 8"}, {"series", k_neox_calls}}).empty())
        << id;
  }
}

TEST_F(Paper, Figure13AndEquation5HaveTheReductionsOfActivations) {
  for (const char* const id : {"fig-13", "eq-5"}) {
    const Rows found = rows(id);
    for (const char* const model : {"19M", "125M", "1.3B", "13B"}) {
      for (const auto& [ranks, one] : expected().at("fig11b_13b_tensor").at("models").at(model).items()) {
        const Where row = {{"model", model}, {"setting", "t = " + ranks}, {"panel", "b"}};
        if (one.contains("invalid")) {
          EXPECT_TRUE(found.all(row).empty()) << model << ranks;
          continue;
        }
        Where printed = row;
        printed["series"] = "Eqs 4 and 5 as printed";
        EXPECT_EQ(found.one(printed, "elements"), one.at("eq5_elements")) << model << ranks;
        Where corrected = row;
        corrected["series"] = "Eqs 4 and 5 corrected";
        EXPECT_EQ(found.one(corrected, "elements"), one.at("corrected_wire_elements")) << model << ranks;
        Where rules = row;
        rules["series"] = k_neox_calls;
        // Beside the activations three reductions of b s fp32 values of the cross entropy.
        const double cross_entropy = 3 * 2.0 * 32768 * (std::stod(ranks) - 1) / std::stod(ranks);
        EXPECT_EQ(found.one(rules, "wire_bytes").get<double>(),
                  2 * one.at("corrected_wire_elements").get<double>() + cross_entropy)
            << model << ranks;
      }
    }
  }
}

TEST_F(Paper, Figure13HasWhatGptNeoxSent) {
  const Rows found = rows("fig-13");
  // Four micro-batches of [2, 64, 128]: one message each; 6 L + 2 = 26 all_reduces each on two ranks.
  EXPECT_EQ(found.one({{"bar", "p2"}}, "wire_bytes"), 4 * 32768);
  EXPECT_EQ(found.one({{"bar", "t2"}}, "wire_bytes"), 4 * 26 * 32768);
}

TEST_F(Paper, Figures11And12HaveTotalsAndOperations) {
  const Rows totals = rows("fig-11");
  const Rows parts = rows("fig-12");
  for (const char* const model : {"19M", "125M", "1.3B", "13B"}) {
    EXPECT_EQ(totals.all({{"model", model}, {"setting", "p = 2"}}).size(), 1U) << model;
  }
  EXPECT_TRUE(totals.all({{"model", "125M"}, {"setting", "t = 8"}}).empty());
  EXPECT_FALSE(totals.all({{"model", "13B"}, {"setting", "t = 8"}}).empty());
  for (const auto& [ranks, one] : expected().at("fig11b_13b_tensor").at("models").at("1.3B").items()) {
    const Where row = {{"model", "1.3B"}, {"setting", "t = " + ranks}, {"axis", "tp"}, {"op", "all_gather"}};
    EXPECT_EQ(parts.one(row, "message_bytes_per_rank"),
              one.at("partition_activations_AG_bytes_full(L*bsh*2)"))
        << ranks;
    EXPECT_EQ(parts.one(row, "wire_bytes_per_rank"), one.at("partition_activations_AG_wire_per_rank"))
        << ranks;
  }
  // The reduction of gradients on one rank, which is logged and sends nothing.
  const Where lone = {{"model", "1.3B"}, {"setting", "p = 2"}, {"axis", "self"}, {"op", "all_reduce"}};
  EXPECT_GT(parts.one(lone, "logged_bytes_per_rank").get<double>(), 1.3e9);
  EXPECT_EQ(parts.one(lone, "wire_bytes_per_rank"), 0);
}

TEST_F(Paper, Figures14And15HaveVolumesByLength) {
  const Rows gathers = rows("fig-14");
  const Rows messages = rows("fig-15");
  for (const auto& [length, one] : expected().at("fig14_fig15_sequence_length_1.3B").at("values").items()) {
    const Json sequence = std::stoi(length);
    const auto gathered = [&](const std::string& setting, const std::string& axis) {
      return gathers.one({{"sequence", sequence}, {"setting", setting}, {"axis", axis}},
                         "message_bytes_per_rank");
    };
    EXPECT_EQ(gathered("ZeRO-1", "dp").get<double>(), 2 * one.at("zero_AG_elements_P_exact").get<double>())
        << length;
    EXPECT_EQ(gathered("t = 2", "tp").get<double>(),
              2 * one.at("tp2_partition_act_AG_elements").get<double>())
        << length;
    EXPECT_EQ(gathered("DDP", "all"), 0) << length;
    const auto moved = [&](const char* panel, const char* setting) {
      return messages.one({{"sequence", sequence}, {"setting", setting}, {"panel", panel}},
                          "message_bytes_per_rank");
    };
    EXPECT_EQ(moved("a", "p = 2"), one.at("pp2_rank0_recv_bytes")) << length;
    EXPECT_EQ(moved("b", "p = 2"), one.at("pp2_rank0_send_bytes(hidden+mask)")) << length;
    // A partitioned tensor is sent with its shape: nine 64-bit numbers.
    EXPECT_EQ(moved("b", "t = 2, p = 2"), one.at("tp2pp2_send_bytes_partitioned").get<std::int64_t>() + 72)
        << length;
    for (const auto& [id, found, setting] :
         {std::tuple("fig-14", &gathers, "ZeRO-1"), std::tuple("fig-15", &messages, "t = 2")}) {
      const std::vector<Where> rate =
          found->all({{"sequence", sequence}, {"setting", setting}, {"op", "throughput"}});
      ASSERT_EQ(rate.size(), 1U) << id << length;
      EXPECT_EQ(rate.front().at("evidence"), "simulated");
      EXPECT_GT(rate.front().at("flops_per_s_per_rank").get<double>(), 1e12);
    }
  }
}

TEST_F(Paper, Figures1And2AreSimulatedWithTheirInterval) {
  for (const char* const id : {"fig-1", "fig-2"}) {
    const Json made = figure(id);
    const Rows found(made);
    const std::vector<Where> computing = found.all({{"part", "computing"}});
    EXPECT_GE(computing.size(), 4U) << id;
    for (const Where& row : found.all({})) {
      EXPECT_EQ(row.at("evidence"), "simulated") << id;
      EXPECT_LE(row.at("low_s").get<double>(), row.at("time_s").get<double>()) << id;
      EXPECT_NE(row.at("provenance").get<std::string>().find("90 % interval"), std::string::npos) << id;
    }
    EXPECT_FALSE(found.all({{"part", "all_reduce tp"}}).empty()) << id;
  }
}

TEST_F(Paper, Figures3To6AndTablesShowWhatIsThere) {
  const Rows space = rows("fig-3");
  EXPECT_GE(space.one({{"what", "frameworks"}}, "count").get<int>(), 10);
  const Rows grid = rows("fig-4");
  EXPECT_EQ(grid.all({}).size(), 8U);
  EXPECT_EQ(grid.one({{"pp", 1}, {"dp", 1}, {"tp", 1}}, "rank"), 7);
  EXPECT_EQ(grid.one({{"pp", 1}, {"dp", 0}, {"tp", 0}}, "rank"), 4);
  const Rows gathers = rows("fig-5");
  std::set<int> ranks;
  for (const Where& row : gathers.all({})) {
    ranks.insert(row.at("rank").get<int>());
  }
  EXPECT_FALSE(ranks.empty());
  // Links of a node of Frontier: 4 pairs of 200, 2 of 100 and 6 of 50 GB/s, each in both directions.
  const Rows node = rows("fig-6");
  EXPECT_EQ(node.all({{"link_bytes_per_s", 200e9}}).size(), 8U);
  EXPECT_EQ(node.all({{"link_bytes_per_s", 100e9}}).size(), 4U);
  EXPECT_EQ(node.all({{"link_bytes_per_s", 50e9}}).size(), 12U);
  EXPECT_EQ(rows("table-1").all({{"series", "Table I"}}).size(), 9U);
  EXPECT_NE(rows("table-2").one({{"what", "processor"}}, "corrected").get<std::string>().find("7A53"),
            std::string::npos);
}

TEST_F(Paper, FootnotesAreExplainedWithTheirBytes) {
  const Rows found = rows("footnotes");
  ASSERT_EQ(found.all({}).size(), 5U);
  for (std::size_t at = 0; at < 5; ++at) {
    EXPECT_EQ(found.all({})[at].at("what").get<std::string>().substr(0, 2), fmt::format("{}:", at + 1));
  }
  EXPECT_EQ(found.one({{"what", "3: sends larger by up to eight megabytes"}}, "message_bytes"), 8388608);
  EXPECT_EQ(found.one({{"what", "2: tensor parallelism sends more than Eq. 5"}}, "message_bytes"), 805306368);
  const Json refusal = found.one({{"what", "4: 125M does not run with tensor parallelism"}}, "value");
  EXPECT_NE(refusal.get<std::string>().find("12 heads are not divisible by tp 8"), std::string::npos);
}

TEST_F(Paper, FrameworksOfTodayStandBesideThoseOf2024) {
  const Rows found = rows("today");
  // 2 P (d-1)/d fp16 bytes of 1.3B on 16 ranks, and half of that for a gather.
  const double both = expected()["fig8_fig10"]["1.3B"]["exact_P"]["16"]["DDP"]["bytes_fp16"];
  const auto wire = [&](const char* panel, const char* framework) {
    return found.sum({{"panel", panel}, {"framework", framework}}, "wire_bytes_per_rank");
  };
  constexpr double flags = 1000;  // norms and flags
  EXPECT_NEAR(wire("a", "deepspeed@0.14.0"), both, flags);
  EXPECT_NEAR(wire("a", "deepspeed@0.19.8"), both, flags);
  EXPECT_NEAR(wire("a", "torch-ddp"), both, flags);
  EXPECT_NEAR(wire("b", "deepspeed@0.14.0"), 1.5 * both, flags);
  EXPECT_NEAR(wire("b", "deepspeed@0.19.8"), 1.5 * both, flags);
  EXPECT_LT(wire("b", "megatron@core_v0.7.0"), 1.01 * both);
  // Messages between stages: b s h fp16 values, and the mask of 8 MiB where it is sent.
  const auto sent = [&](const char* framework) {
    return found.sum({{"panel", "e"}, {"framework", framework}, {"op", "send"}}, "wire_bytes_per_rank");
  };
  EXPECT_EQ(sent("neox"), 33554432 + 8388608);
  EXPECT_EQ(sent("megatron@core_v0.7.0"), 33554432);
  EXPECT_EQ(sent("megatron@0.19.2"), 33554432);
}

TEST_F(Paper, TakeawaysFitANarrowTerminal) {
  std::istringstream text(rendered(shared_pages().result, Format::table));
  int checks = 0;
  for (std::string line; std::getline(text, line) && line.find("checks pass") == std::string::npos;) {
    EXPECT_LE(display_width(line), 80U) << line;
    checks +=
        line.starts_with("  PASS  ") || line.starts_with("  FAIL  ") || line.starts_with("  open  ") ? 1 : 0;
  }
  EXPECT_EQ(checks, std::ssize(shared_pages().result.takeaways.rows()));
}

TEST_F(Paper, TakeawaysPassOrFailWithNumbers) {
  const Rows found = rows("takeaways");
  for (const auto& [name, verdict] : std::map<std::string, std::string>{{"zero-3-theory", "PASS"},
                                                                        {"zero-3-first", "FAIL"},
                                                                        {"zero-3-13B", "FAIL"},
                                                                        {"zero-3-19M", "FAIL"},
                                                                        {"zero-3-over-zero-1", "FAIL"},
                                                                        {"sequence-zero-1", "PASS"},
                                                                        {"sequence-zero-3", "PASS"},
                                                                        {"receive", "PASS"},
                                                                        {"send", "PASS"},
                                                                        {"small-messages-recorded", "PASS"},
                                                                        {"cold-receive", "open"}}) {
    EXPECT_EQ(found.one({{"name", name}}, "verdict"), verdict)
        << name << ": " << found.one({{"name", name}}, "value");
  }
  EXPECT_EQ(found.one({{"name", "receive"}}, "value"), "2.000, 2.000, 2.000 times");
  EXPECT_EQ(found.one({{"name", "send"}}, "value"), "2.118, 2.222, 2.400 times");
}

}  // namespace
}  // namespace commlens
