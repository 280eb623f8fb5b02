// Real traces of the PyTorch profiler against answers that an independent program computed (ground_truth.json
// beside them; its conventions: communication = kernels named nccl…, `by_step_of_launch` = by the profiler
// step of the launch).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/formats/kineto/import.hpp"
#include "commlens/summary/overlap.hpp"
#include "commlens/trace/merge_traces.hpp"

namespace commlens {
namespace {

using Json = nlohmann::json;
using std::chrono::nanoseconds;

std::filesystem::path kineto_directory() {
  const char* const data = std::getenv("COMMLENS_TEST_DATA");
  return data == nullptr ? "" : std::filesystem::path(data) / "golden/foreign/kineto";
}

/// Microseconds of the answers; exact, as they have three decimals at most.
std::int64_t ns(const Json& microseconds) { return std::llround(microseconds.get<double>() * 1e3); }

struct Measured {
  std::int64_t calls = 0;
  std::int64_t compute_kernels = 0;
  std::int64_t sum = 0;
  std::int64_t together = 0;  // communication and computing
  std::int64_t communicating = 0;
  std::int64_t computing = 0;
};

std::int64_t length_of(const std::vector<Interval>& stretches) {
  std::int64_t total = 0;
  for (const Interval& stretch : stretches) {
    total += (stretch.finished - stretch.started).count();
  }
  return total;
}

/// Union of stretches, by sorting: written for this test, apart from the library's own.
std::vector<Interval> joined(std::vector<Interval> stretches) {
  std::sort(stretches.begin(), stretches.end());
  std::vector<Interval> result;
  for (const Interval& stretch : stretches) {
    if (!result.empty() && stretch.started <= result.back().finished) {
      result.back().finished = std::max(result.back().finished, stretch.finished);
    } else {
      result.push_back(stretch);
    }
  }
  return result;
}

Measured measured(const Trace& trace, std::optional<Iteration> step) {
  Measured result;
  std::vector<Interval> communicating;
  std::vector<Interval> computing;
  for (const RankStream& stream : trace.streams) {
    for (std::size_t at = 0; at < stream.events.size(); ++at) {
      if (!step || stream.events[at].iteration == *step) {
        communicating.push_back({stream.times.at(at).started, stream.times[at].finished});
        result.sum += (communicating.back().finished - communicating.back().started).count();
      }
    }
    for (const ComputeInterval& stretch : stream.compute) {
      if (!step || stretch.iteration == *step) {
        computing.push_back({stretch.started, stretch.finished});
      }
    }
  }
  result.calls = std::ssize(communicating);
  result.compute_kernels = std::ssize(computing);
  std::vector<Interval> all = communicating;
  all.insert(all.end(), computing.begin(), computing.end());
  result.communicating = length_of(joined(communicating));
  result.computing = length_of(joined(computing));
  result.together = result.communicating + result.computing - length_of(joined(all));
  return result;
}

/// Stamps beyond 2^53 ns were rounded to steps of 256 ns when the answers were computed (in doubles), so that
/// times at which stretches meet may be off by that; sums of durations are exact.
void expect_part(const Json& answer, const Measured& got, bool stamps_are_exact) {
  EXPECT_EQ(got.calls, answer.at("comm_kernels").get<std::int64_t>());
  EXPECT_EQ(got.compute_kernels, answer.at("compute_kernels").get<std::int64_t>());
  EXPECT_EQ(got.sum, ns(answer.at("comm_sum_us")));
  if (stamps_are_exact) {
    EXPECT_EQ(got.communicating, ns(answer.at("comm_union_us")));
    EXPECT_EQ(got.computing, ns(answer.at("compute_union_us")));
    EXPECT_EQ(got.together, ns(answer.at("comm_and_compute_us")));
  } else {
    EXPECT_NEAR(static_cast<double>(got.communicating), answer.at("comm_union_us").get<double>() * 1e3, 1000);
    EXPECT_NEAR(static_cast<double>(got.computing), answer.at("compute_union_us").get<double>() * 1e3, 1000);
    EXPECT_NEAR(static_cast<double>(got.together), answer.at("comm_and_compute_us").get<double>() * 1e3,
                1000);
  }
}

std::int64_t of_step(const Trace& trace, std::optional<Iteration> step) {
  std::int64_t kernels = 0;
  for (const RankStream& stream : trace.streams) {
    for (const CommEvent& event : stream.events) {
      kernels += event.iteration == step.value_or(k_unknown_iteration) ? 1 : 0;
    }
    for (const ComputeInterval& stretch : stream.compute) {
      kernels += stretch.iteration == step.value_or(k_unknown_iteration) ? 1 : 0;
    }
  }
  return kernels;
}

void expect_truth(const std::filesystem::path& directory, const Json& truth) {
  const std::string file = truth.at("file").get<std::string>();
  SCOPED_TRACE(file);
  const Result<Trace> trace = formats::kineto::read(directory / file);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  const bool stamps_are_exact = truth.at("ts_resolution").get<std::string>() != "us";
  expect_part(truth.at("all"), measured(*trace, std::nullopt), stamps_are_exact);
  const auto& skipped = trace->provenance.skipped;
  const auto memory = skipped.find("event of memory copied or set");
  EXPECT_EQ(memory == skipped.end() ? 0 : memory->second, truth.at("all").at("mem_ops").get<std::int64_t>());
  std::int64_t in_steps = 0;
  for (const auto& [step, part] : truth.at("by_step_of_launch").items()) {
    SCOPED_TRACE("step " + step);
    expect_part(part, measured(*trace, std::stoi(step)), stamps_are_exact);
    in_steps += of_step(*trace, std::stoi(step));
  }
  // Events outside of all steps: the answer counts copies of memory too.
  EXPECT_LE(of_step(*trace, std::nullopt), truth.at("gpu_events_outside_steps").get<std::int64_t>());
  EXPECT_EQ(in_steps + of_step(*trace, std::nullopt),
            truth.at("all").at("comm_kernels").get<std::int64_t>() +
                truth.at("all").at("compute_kernels").get<std::int64_t>());
}

class KinetoTruth : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (kineto_directory().empty()) {
      GTEST_SKIP() << "COMMLENS_TEST_DATA is not set";
    }
  }
};

TEST_P(KinetoTruth, IsMet) {
  const std::filesystem::path directory = kineto_directory() / GetParam();
  std::ifstream file(directory / "ground_truth.json");
  const Json truths = Json::parse(file);
  for (const Json& truth : truths.is_array() ? truths : Json::array({truths})) {
    expect_truth(directory, truth);
  }
}

INSTANTIATE_TEST_SUITE_P(Real, KinetoTruth,
                         testing::Values("nccl_parser_config", "trace_filter_128rank", "dlrm_kineto_8rank",
                                         "amd_trace"));

/// Bytes by collective, type and group, as the kernels' metadata tell them.
TEST_F(KinetoTruth, HasTheBytesOfTheMetadata) {
  const std::filesystem::path directory = kineto_directory() / "nccl_parser_config";
  std::ifstream file(directory / "ground_truth.json");
  const Json truth = Json::parse(file);
  const Result<Trace> trace = formats::kineto::read(directory / "nccl_data.json.gz");
  ASSERT_TRUE(trace.has_value());
  Json got = Json::object();
  const RankStream& stream = trace->streams.at(0);
  for (std::size_t at = 0; at < stream.events.size(); ++at) {
    const CommOp& op = trace->op(stream.events[at].op);
    EXPECT_EQ(trace->groups.members(op.group, Rank{0}), (std::vector<Rank>{Rank{0}, Rank{1}}));
    const std::string key = std::string(op.kind == CommKind::all_reduce ? "allreduce" : name_of(op.kind)) +
                            "|" + (op.dtype == DType::fp32 ? "Float" : "Long") + "|group=2|pg=0";
    Json& row = got.emplace(key, Json::object()).first.value();
    const auto add = [&](const char* field, std::int64_t value) {
      row[field] = row.value(field, std::int64_t{0}) + value;
    };
    add("count", 1);
    add("in_bytes", (op.input * op.dtype).value);
    add("out_bytes", (op.output * op.dtype).value);
    add("ns", (stream.times[at].finished - stream.times[at].started).count());
  }
  const Json& metadata = truth.at("all").at("metadata");
  ASSERT_EQ(got.size(), metadata.size());
  for (const auto& [key, row] : metadata.items()) {
    EXPECT_EQ(got.at(key).at("count"), row.at("count")) << key;
    EXPECT_EQ(got.at(key).at("in_bytes"), row.at("in_bytes")) << key;
    EXPECT_EQ(got.at(key).at("out_bytes"), row.at("out_bytes")) << key;
    EXPECT_EQ(got.at(key).at("ns").get<std::int64_t>(), ns(row.at("sum_us"))) << key;
  }
}

/// The stamps of these files are whole microseconds, so the overlap is one too. The numbers were computed
/// from the files with Python's decimal module.
TEST_F(KinetoTruth, OverlapsOfWholeMicrosecondsAreExact) {
  const std::map<std::string, std::int64_t> microseconds = {
      {"dlrm_kineto_8rank/worker0_step_12.1694128201545.pt.trace.json.gz", 261},
      {"dlrm_kineto_8rank/worker1_step_12.1694128201556.pt.trace.json.gz", 280},
      {"trace_filter_128rank/sampled_rank-0.json.gz", 59216},
      {"trace_filter_128rank/sampled_rank-1.json.gz", 75530}};
  for (const auto& [file, expected] : microseconds) {
    const Result<Trace> trace = formats::kineto::read(kineto_directory() / file);
    ASSERT_TRUE(trace.has_value()) << file;
    std::int64_t overlapped = 0;
    for (const IterationOverlap& row : communication_overlap(*trace)) {
      overlapped += row.all.overlapped.value_or(nanoseconds(-1)).count();
    }
    EXPECT_EQ(overlapped, expected * 1000) << file;
  }
}

/// gloo on CPUs, rank 34 of 300: ten all_reduces of the CPU threads.
TEST_F(KinetoTruth, ReadsATraceOfGloo) {
  const Result<Trace> trace = formats::kineto::read(
      kineto_directory() / "cpu_only_gloo/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz");
  ASSERT_TRUE(trace.has_value());
  ASSERT_EQ(trace->streams.size(), 1U);
  EXPECT_EQ(trace->streams[0].ranks.first, Rank{34});
  EXPECT_EQ(trace->job_ranks(), 300);
  ASSERT_EQ(trace->streams[0].events.size(), 10U);
  const CommOp& op = trace->op(trace->streams[0].events[0].op);
  EXPECT_EQ(op.kind, CommKind::all_reduce);
  EXPECT_EQ(op.input, Elements{321271});
  EXPECT_EQ(trace->streams[0].times[0].finished - trace->streams[0].times[0].started,
            nanoseconds(173'209'713));
  EXPECT_EQ(trace->streams[0].events[0].iteration, 551);
}

TEST_F(KinetoTruth, EightRanksBecomeOneJob) {
  std::vector<Trace> traces;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kineto_directory() / "dlrm_kineto_8rank")) {
    if (entry.path().extension() == ".gz") {
      Result<Trace> trace = formats::kineto::read(entry.path());
      ASSERT_TRUE(trace.has_value());
      traces.push_back(std::move(*trace));
      names.push_back(entry.path());
    }
  }
  const Result<Trace> job = merged(std::move(traces), names);
  ASSERT_TRUE(job.has_value()) << job.error().message;
  ASSERT_EQ(job->streams.size(), 8U);
  for (const RankStream& stream : job->streams) {
    EXPECT_EQ(stream.events.size(), 8U);
  }
}

}  // namespace
}  // namespace commlens
