// An axis that no code knows, added to a layout, is predicted, written, read, compared, summarised and shown.
// A new kind of parallelism needs only its calls.
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/cli/test_support.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/plan/program_builder.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using Ranks = std::vector<std::int64_t>;
using test_support::run_with;

const Axis k_x("x");
const Rule k_shuffle{"toy.shuffle", "this test"};
const Rule k_ring{"toy.ring", "this test"};

/// An all_to_all along x, then a ring along it.
Result<std::vector<StagePrograms>> write_toy(const Job& job, std::span<const std::int64_t> stages,
                                             Plan& plan) {
  std::vector<StagePrograms> programs;
  for (const std::int64_t stage : stages) {
    ProgramBuilder out(plan);
    out.set_phase(Phase::forward, 0);
    out.all_to_all(out.groups.along(k_x), {100 + stage}, DType::fp16, k_shuffle, "toy");
    out.send(out.groups.pair(k_x, GroupPattern::Shape::to_next), {8}, job.train.dtype, k_ring, "toy");
    out.recv(out.groups.pair(k_x, GroupPattern::Shape::from_previous), {8}, job.train.dtype, k_ring, "toy");
    programs.push_back({{}, {out.take()}});
  }
  return programs;
}

FrameworkRules toy_rules() {
  return {.name = "toy",
          .engine = "toy",
          .versions = {},
          .base = "",
          .check = [](const Job&) { return Result<void>{}; },
          .unverified = [](const Job&) { return std::vector<std::string>{}; },
          .write = write_toy,
          .more_axes = {k_x},
          .takes_any_order = true};
}

/// 24 ranks: tensor 2 fastest, x 3, stages 2, data 2 slowest.
Job toy_job() {
  Job job = with_framework(preset("19M").value(), "megatron");
  job.layout = {.dp = 2, .tp = 2, .pp = 2, .order = "tp-x-cp-ep-pp-dp", .more_axes = {{k_x, 3}}};
  return validated(job).value();
}

Ranks values(const std::vector<Rank>& ranks) {
  Ranks result;
  for (const Rank rank : ranks) {
    result.push_back(rank.value);
  }
  return result;
}

Trace toy_trace() { return make_plan(toy_job(), toy_rules()).value().trace(1); }

TEST(ToyAxis, IsPredictedOnTheRanksThatDifferAlongItAlone) {
  const Job job = toy_job();
  EXPECT_EQ(job.layout.ranks, 24);
  const Trace trace = toy_trace();
  ASSERT_EQ(trace.streams.size(), 2U) << "one class a stage";
  // Stage 1 of data 0 are ranks 6 to 11, of data 1 ranks 18 to 23.
  EXPECT_EQ(trace.streams[1].ranks, (RankRange{Rank{6}, Rank{23}, 6, 12}));
  EXPECT_EQ(trace.stream_of(Rank{5}), trace.streams.data());
  EXPECT_EQ(trace.stream_of(Rank{20}), &trace.streams[1]);
  const CommOp& shuffle = trace.op(trace.streams[1].events[0].op);
  EXPECT_EQ(values(trace.groups.members(shuffle.group, Rank{9})), (Ranks{7, 9, 11}));
  EXPECT_EQ(trace.groups.axis(shuffle.group), k_x);
  const CommOp& send = trace.op(trace.streams[1].events[1].op);
  EXPECT_EQ(values(trace.groups.members(send.group, Rank{11})), (Ranks{11, 7})) << "the ring closes";
}

TEST(ToyAxis, IsRefusedByRulesThatHaveNoCallsAlongIt) {
  const Result<Plan> plan = make_plan(toy_job());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message, "the megatron rules know no axis x");
}

TEST(ToyAxis, ComesBackFromANativeTrace) {
  const test_support::ScratchDirectory directory;
  const Trace before = toy_trace();
  write_trace(before, directory / "toy");
  const Result<Trace> after = read_trace(directory / "toy");
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->groups.mesh(), before.groups.mesh());
  EXPECT_EQ(after->groups.mesh()->size(k_x), 3);
  EXPECT_EQ(after->ops(), before.ops());
  EXPECT_EQ(after->streams[1].ranks, before.streams[1].ranks);
  EXPECT_EQ(after->groups.axis(after->ops().front().group), k_x);
}

TEST(ToyAxis, IsSummedUpComparedAndShown) {
  const test_support::ScratchDirectory directory;
  const std::string toy = directory / "toy";
  write_trace(toy_trace(), toy);
  const auto summary = run_with({"summary", toy});
  EXPECT_EQ(summary.code, ExitCode::done) << summary.err;
  EXPECT_NE(summary.out.find("x x3"), std::string::npos) << summary.out;

  const std::string calls = directory / "calls.jsonl";
  EXPECT_EQ(run_with({"export", toy, "--to", "calls", "-o", calls}).code, ExitCode::done);
  const auto same = run_with({"compare", toy, calls});
  EXPECT_EQ(same.code, ExitCode::done) << same.out;
  EXPECT_NE(same.out.find("equal: 72 of 72 calls (24 ranks"), std::string::npos) << same.out;
  const std::string again = directory / "again";  // lists of ranks, which have no mesh, keep the name
  EXPECT_EQ(run_with({"import", calls, "-o", again}).code, ExitCode::done);
  EXPECT_NE(run_with({"summary", again}).out.find("x x3"), std::string::npos);

  Trace other = toy_trace();
  CommOp less = other.op(other.streams[1].events[0].op);
  less.input.value = less.output.value = 7;
  other.streams[1].events[0].op = other.intern(less);
  const std::string differs = directory / "other";
  write_trace(other, differs);
  const auto different = run_with({"compare", toy, differs, "--format", "json"});
  EXPECT_EQ(different.code, ExitCode::differs);
  EXPECT_NE(different.out.find(R"("axis": "x")"), std::string::npos) << different.out;
  EXPECT_NE(different.out.find(R"("rank_count": 12)"), std::string::npos) << different.out;

  const std::string page = directory / "page.html";
  const auto report = run_with({"report", toy, calls, "-o", page, "--data", directory / "data"});
  EXPECT_EQ(report.code, ExitCode::done) << report.err;
}

}  // namespace
}  // namespace commlens
