// The verb's function: groups at once, verification, comparison of launches, formats that our importers read.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/app/bench.hpp"
#include "commlens/app/bench_reader.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/formats/import_any.hpp"
#include "tests/bench/fault_transport.hpp"

namespace commlens {
namespace {

using namespace std::chrono_literals;
using test_support::ScratchDirectory;

/// A request that takes little time.
BenchRequest quick(std::vector<std::string> ops, const std::string& sizes) {
  BenchRequest request;
  request.ops = std::move(ops);
  request.sizes = sizes;
  request.ranks = 2;
  request.time = 20ms;
  request.seed = 1;
  return request;
}

BenchResult result_of(const BenchRequest& request) {
  Result<BenchResult> result = bench_calls(request);
  EXPECT_TRUE(result) << result.error().message;
  return result ? *result : BenchResult();
}

std::string error_of(const BenchRequest& request) {
  const Result<BenchResult> result = bench_calls(request);
  return result ? "" : result.error().message;
}

/// A row's bandwidths with a given P50.
BenchRow row_with(const std::string& op, std::int64_t ranks, std::int64_t bytes, double p50_s) {
  BenchRow row;
  row.key = {op, "fp32", "world", ranks, bytes, false};
  row.stats.p50_s = p50_s;
  return row;
}

// nccl-tests: algorithm bandwidth S / t; bus bandwidth times 2 (n - 1) / n, (n - 1) / n, or 1.
TEST(BenchRows, HaveTheBandwidthsOfNcclTests) {
  constexpr std::int64_t k_gib = std::int64_t{1} << 30;
  EXPECT_NEAR(*row_with("all_reduce", 8, k_gib, 0.01).algorithm_bandwidth() * 1e-9, 107.374, 5e-4);
  for (const auto& [op, bus] : std::map<std::string, double>{{"all_reduce", 187.905},
                                                             {"all_gather", 93.952},
                                                             {"reduce_scatter", 93.952},
                                                             {"all_to_all", 93.952},
                                                             {"gather", 93.952},
                                                             {"scatter", 93.952},
                                                             {"broadcast", 107.374},
                                                             {"reduce", 107.374},
                                                             {"send", 107.374}}) {
    EXPECT_NEAR(*row_with(op, 8, k_gib, 0.01).bus_bandwidth() * 1e-9, bus, 1e-3) << op;
  }
  EXPECT_EQ(*row_with("all_reduce", 1, k_gib, 0.01).bus_bandwidth(), 0);
}

TEST(BenchSizes, AreRoundedUpToWholePartsOfAllRanks) {
  BenchRequest request = quick({"all_gather"}, "8,100");
  request.ranks = 3;
  const BenchResult result = result_of(request);
  ASSERT_EQ(result.run.planned.size(), 2U);
  EXPECT_EQ(result.run.planned[0].key.bytes, 12);
  EXPECT_EQ(result.run.planned[1].key.bytes, 108);
}

TEST(BenchCalls, ReportEveryRowWithItsLaunches) {
  BenchRequest request = quick({"all_reduce", "barrier"}, "8,64K");
  request.launches = 3;
  request.launch_every = 0ns;
  const BenchResult result = result_of(request);
  const std::vector<BenchRow> rows = combined_rows(result.run);
  ASSERT_EQ(rows.size(), 3U);
  for (const BenchRow& row : rows) {
    EXPECT_EQ(row.launches, 3);
    EXPECT_GT(row.stats.p50_s, 0);
    EXPECT_LE(*row.stats.low_s, row.stats.p50_s);
    EXPECT_GE(*row.stats.high_s, row.stats.p50_s);
    EXPECT_TRUE(row.back_to_back_s);
  }
  ASSERT_EQ(result.run.launches.size(), 3U);
  EXPECT_EQ(result.run.launches[2].seed, 3U);
}

TEST(BenchCalls, RefuseWhatCannotBe) {
  EXPECT_EQ(error_of(quick({"allreduce"}, "8")).substr(0, 63),
            "'allreduce' is no op to time (did you mean all_reduce?); choose");
  EXPECT_NE(error_of(quick({"all_reduce"}, "8:4")).find("'8' is above '4'"), std::string::npos);
  BenchRequest nccl = quick({"all_reduce"}, "8");
  nccl.transport = Transport::nccl;
  EXPECT_NE(error_of(nccl).find("--transport nccl: bench times calls on host memory"), std::string::npos);
  BenchRequest pairs = quick({"ping_pong"}, "8");
  pairs.groups = "world";
  pairs.ranks = 3;
  EXPECT_NE(error_of(pairs).find("ping_pong is between the 2 ranks of a pair"), std::string::npos);
  BenchRequest axis = quick({"all_reduce"}, "8");
  axis.groups = "tp";
  EXPECT_NE(error_of(axis).find("--mesh"), std::string::npos);
  EXPECT_NE(
      error_of(quick({"all_reduce"}, "1024G")).find("the buffers of the ranks of this machine take 4.00 TiB"),
      std::string::npos);
  BenchRequest mpi = quick({"all_reduce"}, "8");
  mpi.transport = Transport::mpi;
  mpi.ranks = 0;
  mpi.launches = 2;
  EXPECT_NE(error_of(mpi).find("--append FILE"), std::string::npos);
}

/// Calls of 8 ranks in pairs (tp), and in groups of 4 (dp), that each rank has issued.
struct IssuedCalls {
  std::array<std::atomic<std::int64_t>, 8> tp{};
  std::array<std::atomic<std::int64_t>, 8> dp{};
  std::atomic<bool> gave_up = false;
};

/// Waits until the partner has issued as many calls of dp as this rank has of tp, and one more.
void wait_for_partner(IssuedCalls& calls, std::size_t rank) {
  const std::int64_t needed = calls.tp.at(rank) + 1;
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (calls.dp.at(rank - 1) < needed && !calls.gave_up) {
    calls.gave_up = std::chrono::steady_clock::now() > until;
    std::this_thread::yield();
  }
}

// The second rank of each pair enters its tp call when the first one has issued its dp call, which it cannot
// where the dp call follows the end of the tp call.
TEST(BenchGroups, OfTwoAxesAreInFlightAtOnce) {
  IssuedCalls calls;
  BenchRequest request = quick({"all_reduce"}, "1M");
  request.ranks = 8;
  request.mesh = "dp=4,tp=2";
  request.groups = "tp+dp";
  request.decorate = [&](std::unique_ptr<Communicator> world) {
    const auto rank = static_cast<std::size_t>(world->rank().value);
    faults::Faults faults;
    faults.issuing = [&calls, rank](std::int64_t ranks, const CommCall& call) {
      if (call.dtype == DType::fp32 && ranks == 2 && rank % 2 == 1) {
        wait_for_partner(calls, rank);
      }
    };
    faults.issued = [&calls, rank](std::int64_t ranks, const CommCall& call) {
      if (call.dtype == DType::fp32) {
        ++(ranks == 2 ? calls.tp : calls.dp).at(rank);
      }
    };
    return faults::faulty(std::move(world), faults);
  };
  EXPECT_EQ(combined_rows(result_of(request).run).size(), 1U);
  EXPECT_FALSE(calls.gave_up) << "the dp call is issued when the tp call is complete";
  EXPECT_GT(calls.tp[0], 0);
  EXPECT_EQ(calls.tp[0], calls.dp[0]);
}

thread_local std::int64_t planted_now_ns = 0;  // the clock of the rank whose thread it is

/// Times of calls are what `takes` says, in nanoseconds: the clocks of all ranks go on by it with each call,
/// and stand otherwise.
void plant_times(BenchRequest& request,
                 const std::function<std::int64_t(std::int64_t ranks, const CommCall&)>& takes) {
  request.clock = [] { return planted_now_ns; };
  request.time = 10s;  // rows end when they are settled
  request.decorate = [takes](std::unique_ptr<Communicator> world) {
    planted_now_ns = 0;
    faults::Faults faults;
    faults.waited = [takes](std::int64_t ranks, const CommCall& call) {
      planted_now_ns += call.dtype == DType::fp32 ? takes(ranks, call) : 0;
    };
    return faults::faulty(std::move(world), faults);
  };
}

TEST(BenchRows, HaveTheTimeOfTheVeryFirstCallApart) {
  BenchRequest request = quick({"all_reduce"}, "8");
  request.verifies = true;
  plant_times(request,
              [](std::int64_t, const CommCall&) { return planted_now_ns == 0 ? 1'000'000 : 100'000; });
  const std::vector<BenchRow> rows = combined_rows(result_of(request).run);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_DOUBLE_EQ(rows[0].stats.first_s, 1e-3);
  EXPECT_DOUBLE_EQ(rows[0].stats.p50_s, 1e-4);
  EXPECT_DOUBLE_EQ(*rows[0].back_to_back_s, 1e-4);
}

TEST(BenchGroups, OfTwoAxesTakeTheTimeOfBothCalls) {
  BenchRequest request = quick({"all_reduce"}, "64K");
  request.ranks = 8;
  request.mesh = "dp=4,tp=2";
  request.groups = "tp,dp,tp+dp";
  plant_times(request, [](std::int64_t ranks, const CommCall&) { return ranks == 2 ? 100'000 : 300'000; });
  const std::vector<BenchRow> rows = combined_rows(result_of(request).run);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_DOUBLE_EQ(rows[0].stats.p50_s, 1e-4);
  EXPECT_DOUBLE_EQ(rows[1].stats.p50_s, 3e-4);
  EXPECT_DOUBLE_EQ(rows[2].stats.p50_s, 4e-4);
}

TEST(BenchVerification, CountsWrongElementsOfTheRow) {
  BenchRequest request = quick({"all_reduce", "all_gather"}, "64");
  request.verifies = true;
  EXPECT_EQ(result_of(request).wrong_elements(), 0);
  request.decorate = [](std::unique_ptr<Communicator> world) {
    const bool is_faulty = world->rank().value == 1;
    faults::Faults faults;
    faults.after = [is_faulty](const CommCall& call, std::span<std::byte> output, auto) {
      if (is_faulty && call.kind == CommKind::all_gather && call.dtype == DType::fp32) {
        output[4] ^= std::byte{1};
      }
    };
    return faults::faulty(std::move(world), faults);
  };
  const BenchResult result = result_of(request);
  EXPECT_EQ(result.wrong_elements(), 4) << "one in each of two calls before and after";
  const std::vector<BenchRow> rows = combined_rows(result.run);
  EXPECT_EQ(rows.at(0).wrong_elements, 0);
  EXPECT_EQ(rows.at(1).wrong, "element 1 of rank 1");
}

TEST(BenchDocument, IsReadBackAsItWas) {
  const ScratchDirectory directory;
  BenchRequest request = quick({"all_reduce", "send"}, "8,4K");
  request.json = directory.path("result.json");
  request.launches = 2;
  request.launch_every = 0ns;
  request.verifies = true;
  const BenchResult result = result_of(request);
  const Result<BenchRun> read = read_bench(request.json);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(rendered({.run = *read, .checked = {}, .checked_with = {}}, Format::csv),
            rendered(result, Format::csv));
  EXPECT_FALSE(nlohmann::json::parse(rendered(result, Format::json)).at("partial"));
}

TEST(BenchDocument, KeepsTheLaunchesThatAreThere) {
  const ScratchDirectory directory;
  BenchRequest request = quick({"all_reduce"}, "8");
  request.append = directory.path("result.json");
  EXPECT_EQ(result_of(request).run.launches.size(), 1U);
  EXPECT_EQ(result_of(request).run.launches.size(), 2U);
  EXPECT_EQ(read_bench(request.append)->launches.size(), 2U);
  request.ranks = 3;
  EXPECT_NE(error_of(request).find("choose another file"), std::string::npos);
  EXPECT_NE(read_bench(directory.write("other.json", "{}")).error().message.find("is no result of bench"),
            std::string::npos);
}

/// A result with one launch of one row, and what an edit makes of it.
std::string edited_result(const std::function<void(nlohmann::json& document, nlohmann::json& row)>& edit) {
  nlohmann::json document = nlohmann::json::parse(R"({"schema": "commlens.bench/1", "transport": "threads",
    "rank_count": 2, "cache": "hot", "launches": [{"seed": 1, "clock_error_ns": 0, "partial": false, "rows": [{
    "op": "all_reduce", "dtype": "fp32", "axis": "world", "group_size": 2, "message_bytes": 8,
    "in_place": false, "samples": 30, "p50_ns": 100, "p50_low_ns": 90, "p50_high_ns": 110, "shortest_ns": 80,
    "mean_ns": 100, "p95_ns": null, "p99_ns": null, "entry_skew_ns": 1, "back_to_back_ns": 50,
    "first_call_ns": 1000, "wrong_elements": null, "sample_flags": []}]}]})");
  edit(document, document["launches"][0]["rows"][0]);
  return document.dump();
}

std::string refusal_of(const std::function<void(nlohmann::json& document, nlohmann::json& row)>& edit) {
  const Result<BenchRun> run = parse_bench("base.json", edited_result(edit));
  return run ? "" : run.error().message;
}

TEST(BenchDocument, SaysWhereItIsDamaged) {
  using Json = nlohmann::json;
  EXPECT_EQ(refusal_of([](Json&, Json&) {}), "");
  const std::string none = "base.json: is no result of bench; write one with --json";
  EXPECT_EQ(refusal_of([](Json& document, Json&) { document["schema"] = 1; }), none);
  EXPECT_EQ(parse_bench("base.json", "[").error().message, none);
  const auto damaged = [](const std::string& what) {
    return "base.json: is damaged: " + what + "; measure again, into another file";
  };
  for (const Json& time : {Json(), Json(0), Json(-5), Json(1e300), Json("100")}) {
    EXPECT_NE(
        refusal_of([&](Json&, Json& row) { row["p50_ns"] = time; }).find("launch 1, row 1: p50_ns is no"),
        std::string::npos)
        << time;
  }
  EXPECT_EQ(refusal_of([](Json&, Json& row) { row["mean_ns"] = -1e300; }),
            damaged("launch 1, row 1: mean_ns is no time in nanoseconds"));
  EXPECT_EQ(refusal_of([](Json&, Json& row) { row["samples"] = 0.5; }),
            damaged("launch 1, row 1: samples is no whole number from 1 on"));
  EXPECT_EQ(refusal_of([](Json&, Json& row) { row["message_bytes"] = -8; }),
            damaged("launch 1, row 1: message_bytes is no whole number from 0 on"));
  EXPECT_EQ(
      refusal_of([](Json& document, Json& row) { document["launches"][0]["rows"].push_back(Json(row)); }),
      damaged("launch 1, row 2 is of the same calls as an earlier one"));
  EXPECT_EQ(refusal_of([](Json& document, Json&) { document["launches"][0]["rows"] = 7; }),
            damaged("launch 1: rows is no list"));
  EXPECT_EQ(refusal_of([](Json& document, Json&) { document["launches"].push_back(1); }),
            damaged("launch 2 is no object"));
  EXPECT_EQ(refusal_of([](Json& document, Json&) { document["launches"][0]["began_unix_ns"] = -1; }),
            damaged("launch 1: began_unix_ns is no time since 1970"));
  EXPECT_EQ(refusal_of([](Json& document, Json&) { document["cache"] = "warm"; }),
            damaged("cache is neither \"hot\" nor \"cold\""));
}

TEST(BenchDocument, IsNotReplacedByWhatIsComparedWithIt) {
  const ScratchDirectory directory;
  BenchRequest request = quick({"all_reduce"}, "8");
  request.check = directory.write("base.json", edited_result([](nlohmann::json&, nlohmann::json&) {}));
  request.append = request.check;
  EXPECT_NE(error_of(request).find("--append"), std::string::npos);
  request.json = std::exchange(request.append, "");
  EXPECT_NE(error_of(request).find("--json"), std::string::npos);
  EXPECT_TRUE(read_bench(request.check)) << "it is as it was";
}

TEST(BenchDocument, IsPartialWhenItWasStopped) {
  BenchRequest request = quick({"all_reduce"}, "8");
  request.time = 60s;
  std::atomic<int> asked = 0;
  // Each of two ranks is asked before the first calls, after each of two, and after their round.
  request.stop_requested = [&] { return ++asked > 8; };
  const BenchResult result = result_of(request);
  EXPECT_TRUE(result.run.was_stopped);
  const nlohmann::json json = nlohmann::json::parse(rendered(result, Format::json));
  EXPECT_TRUE(json.at("partial"));
  EXPECT_GE(json.at("rows").at(0).at("samples"), 1);
}

/// Ten launches, of whose calls all_reduce takes so long and the others 300 µs, each launch up to 4 % longer.
BenchRequest planted_launches(std::int64_t all_reduce_ns) {
  BenchRequest request = quick({"all_reduce", "all_gather", "broadcast"}, "8");
  request.launches = 10;
  request.launch_clock = [time = std::make_shared<std::int64_t>(0)] { return *time += 1'000'000'000; };
  const auto launch = std::make_shared<std::atomic<std::int64_t>>(-1);
  plant_times(request, [=](std::int64_t, const CommCall& call) {
    const std::int64_t time = call.kind == CommKind::all_reduce ? all_reduce_ns : 300'000;
    return time + time * (*launch * 7 % 10) * 4 / 1000;
  });
  request.decorate = [launch, planted = request.decorate](std::unique_ptr<Communicator> world) {
    *launch += world->rank().value == 0 ? 1 : 0;
    world->barrier();  // the launch is the same for all ranks
    return planted(std::move(world));
  };
  return request;
}

TEST(BenchCheck, OfLaunchesFindsTheOpThatIs15PercentSlowerAndNoOther) {
  const ScratchDirectory directory;
  BenchRequest before = planted_launches(300'000);
  before.json = directory.path("base.json");
  result_of(before);
  BenchRequest after = planted_launches(345'000);
  after.check = before.json;
  const BenchResult result = result_of(after);
  EXPECT_TRUE(result.is_slower());
  ASSERT_EQ(result.checked.rows.size(), 3U);
  for (const BenchCheck& check : result.checked.rows) {
    const bool is_planted = check.key.op == "all_reduce";
    EXPECT_EQ(check.is_slower, is_planted) << check.key.op << " " << check.ratio();
    EXPECT_NEAR(check.ratio(), is_planted ? 1.15 : 1, 1e-4) << check.key.op;
  }
}

/// The calls that our importer reads in a text: kind, ranks, message bytes -> microseconds.
using Imported = std::map<std::tuple<std::string, std::int64_t, std::int64_t>, double>;

Imported imported(const std::string& text) {
  const ScratchDirectory directory;
  const Result<Trace> trace = formats::import_any(directory.write("run.log", text));
  EXPECT_TRUE(trace) << trace.error().message;
  Imported calls;
  for (const RankStream& stream : trace ? trace->streams : std::vector<RankStream>()) {
    for (std::size_t at = 0; at < stream.events.size(); ++at) {
      const CommOp& op = trace->op(stream.events[at].op);
      const auto time = stream.times.at(at).finished - stream.times.at(at).started;
      calls[{std::string(name_of(op.kind)), trace->groups.size(op.group), message_bytes(op).value}] =
          std::chrono::duration<double, std::micro>(time).count();
    }
  }
  return calls;
}

TEST(BenchFormats, OfOsuAndNcclTestsAreReadBack) {
  BenchRequest request =
      quick({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce"}, "8,64K");
  const BenchResult result = result_of(request);
  for (const std::string& text : {osu_text(result), nccl_tests_text(result)}) {
    SCOPED_TRACE(text);
    const Imported calls = imported(text);
    EXPECT_EQ(calls.size(), 12U);
    for (const BenchRow& row : combined_rows(result.run)) {
      const auto found = calls.find({row.key.op, 2, row.key.bytes});
      ASSERT_NE(found, calls.end()) << row.key.op << " of " << row.key.bytes;
      EXPECT_NEAR(found->second, row.stats.p50_s * 1e6, 0.011) << row.key.op;
    }
  }
}

TEST(BenchFormats, RefuseTypesThatTheyLack) {
  for (const auto& [format, type] : {std::pair("osu", "bf16"),
                                     {"osu", "fp64"},
                                     {"osu", "int64"},
                                     {"nccl-tests", "int16"},
                                     {"nccl-tests", "fp8"}}) {
    BenchRequest request = quick({"all_gather"}, "64");
    request.dtypes = type;
    request.printed_as = format;
    const std::string named = std::string("--format ") + format + ": has no name for " + type;
    EXPECT_EQ(error_of(request).substr(0, named.size()), named);
  }
  BenchRequest request = quick({"all_gather"}, "64");
  request.dtypes = "bf16";
  request.printed_as = "nccl-tests";
  EXPECT_NE(nccl_tests_text(result_of(request)).find(" bfloat16 "), std::string::npos);
}

TEST(BenchFormats, RefuseOpsThatTheyLack) {
  for (const auto& [format, op] : {std::pair("osu", "bandwidth"), {"nccl-tests", "ping_pong"}}) {
    BenchRequest request = quick({op}, "64");
    request.printed_as = format;
    EXPECT_EQ(error_of(request), std::string("--format ") + format + ": has no test of " + op +
                                     "; leave it out, or take another format");
  }
}

TEST(BenchMessages, OfATraceHaveNoLayoutFlags) {
  BenchRequest request;
  request.messages = {"tests/golden/deepspeed/z1_S_w4_fp16_rb50000/calls.jsonl.gz"};
  request.overrides.zero = 1;
  EXPECT_NE(error_of(request).find("--framework and the layout flags are for configurations"),
            std::string::npos);
}

/// The lines of a sweep of 8 ranks, with rows of all of them and of pairs, without the head.
std::string sweep_of(std::int64_t ranks_on_machine, bool has_even_machines) {
  BenchResult result;
  result.run.ranks = 8;
  result.run.ranks_on_machine = ranks_on_machine;
  result.run.has_even_machines = has_even_machines;
  result.run.launches.resize(1);
  for (const std::int64_t ranks : {8, 2}) {
    BenchLaunchRow& row = result.run.launches[0].rows.emplace_back();
    row.key = {"all_reduce", "fp32", ranks == 8 ? "world" : "tp", ranks, 1024, false};
    row.stats.p50_s = 5e-6;
  }
  const std::string text = sweep_csv(result);
  return text.substr(text.find('\n') + 1);
}

TEST(BenchSweep, HasTimesWhoseMachinesAreKnown) {
  EXPECT_EQ(sweep_of(8, true),
            ",mpi,all_reduce,8,1,8,fp32,1024,5.0000\n,mpi,all_reduce,2,1,2,fp32,1024,5.0000\n");
  EXPECT_EQ(sweep_of(4, true), ",mpi,all_reduce,8,2,4,fp32,1024,5.0000\n") << "a pair may be of two machines";
  EXPECT_EQ(sweep_of(4, false), "");
  EXPECT_EQ(sweep_of(8, false), "");
}

}  // namespace
}  // namespace commlens
