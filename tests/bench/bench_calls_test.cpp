// The verb's function: groups at once, verification, comparison of launches, formats that our importers read.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/app/bench.hpp"
#include "commlens/app/bench_document.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/bench/clock_sync.hpp"
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

/// When a rank's call was in flight.
struct InFlight {
  std::int64_t from_ns = 0;
  std::int64_t to_ns = 0;
};

TEST(BenchGroups, OfTwoAxesAreInFlightAtOnce) {
  std::mutex mutex;
  std::map<std::thread::id, std::vector<InFlight>> calls;
  BenchRequest request = quick({"all_reduce"}, "1M");
  request.ranks = 8;
  request.mesh = "dp=4,tp=2";
  request.groups = "tp+dp";
  request.time = 200ms;
  request.decorate = [&](std::unique_ptr<Communicator> world) {
    faults::Faults faults;
    faults.before = [&](CommCall& call) {
      if (call.dtype == DType::fp32) {
        const std::scoped_lock lock(mutex);
        calls[std::this_thread::get_id()].push_back({bench::monotonic_ns(), 0});
      }
    };
    faults.after = [&](const CommCall& call, auto, auto) {
      if (call.dtype == DType::fp32) {
        const std::scoped_lock lock(mutex);
        std::vector<InFlight>& own = calls[std::this_thread::get_id()];
        const auto open =
            std::find_if(own.begin(), own.end(), [](const InFlight& each) { return each.to_ns == 0; });
        open->to_ns = bench::monotonic_ns();
      }
    };
    return faults::faulty(std::move(world), faults);
  };
  const BenchResult result = result_of(request);
  ASSERT_EQ(combined_rows(result.run).size(), 1U);
  ASSERT_EQ(calls.size(), 8U);
  for (const auto& [rank, own] : calls) {
    ASSERT_EQ(own.size() % 2, 0U);
    for (std::size_t at = 0; at < own.size(); at += 2) {
      EXPECT_LT(own[at + 1].from_ns, own[at].to_ns)
          << "the second call is issued while the first is in flight";
    }
  }
}

TEST(BenchGroups, OfTwoAxesTakeNoLessTimeThanEachAlone) {
  BenchRequest request = quick({"all_reduce"}, "1M");
  request.ranks = 8;
  request.mesh = "dp=4,tp=2";
  request.groups = "tp,dp,tp+dp";
  request.time = 500ms;
  const std::vector<BenchRow> rows = combined_rows(result_of(request).run);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_GE(rows[2].stats.p50_s, std::max(rows[0].stats.p50_s, rows[1].stats.p50_s));
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

TEST(BenchDocument, IsPartialWhenItWasStopped) {
  BenchRequest request = quick({"all_reduce"}, "8");
  request.time = 60s;
  std::atomic<int> asked = 0;
  request.stop_requested = [&] { return ++asked > 1; };
  const BenchResult result = result_of(request);
  EXPECT_TRUE(result.run.was_stopped);
  const nlohmann::json json = nlohmann::json::parse(rendered(result, Format::json));
  EXPECT_TRUE(json.at("partial"));
  EXPECT_GE(json.at("rows").at(0).at("samples"), 1);
}

/// A transport whose calls take 300 µs, those of one op 15 % more.
BenchRequest delayed_calls(std::chrono::microseconds all_reduce) {
  BenchRequest request = quick({"all_reduce", "all_gather", "broadcast"}, "8");
  request.time = 10ms;
  request.launches = 10;
  request.decorate = [all_reduce](std::unique_ptr<Communicator> world) {
    faults::Faults faults;
    if (world->rank().value == 0) {
      faults.after = [all_reduce](const CommCall& call, auto, auto) {
        if (call.dtype == DType::fp32) {
          faults::spin(call.kind == CommKind::all_reduce ? all_reduce : 300us);
        }
      };
    }
    return faults::faulty(std::move(world), faults);
  };
  return request;
}

TEST(BenchCheck, OfRealLaunchesFindsTheOpThatIsSlowerAndNoOther) {
  const ScratchDirectory directory;
  BenchRequest before = delayed_calls(300us);
  before.json = directory.path("base.json");
  result_of(before);
  BenchRequest after = delayed_calls(345us);
  after.check = before.json;
  const BenchResult result = result_of(after);
  EXPECT_TRUE(result.is_slower());
  ASSERT_EQ(result.checked.size(), 3U);
  for (const BenchCheck& check : result.checked) {
    EXPECT_EQ(check.is_slower, check.key.op == "all_reduce") << check.key.op << " " << check.ratio();
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

}  // namespace
}  // namespace commlens
