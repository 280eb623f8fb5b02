#include <vector>

#include <gtest/gtest.h>

#include "commlens/advice/test_jobs.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t k_step = 1000;  // nanoseconds from one iteration to the next
constexpr std::int64_t k_elements = 1'053'440;

/// DeepSpeed ZeRO-1 on 4 data ranks, all gradients in one bucket.
Job job_of(bool overlap_comm) {
  Job job = small_job("deepspeed", 4, 128);
  job.model.vocab = job.model.raw_vocab = 1000;
  job.train.zero_stage = 1;
  deepspeed::options(job).reduce_bucket_size = 2'000'000;
  deepspeed::options(job).overlap_comm = overlap_comm;
  return job;
}

/// Three iterations: computing in the first `computing` ns of each, then 300 ns of gradient reduction from
/// `reduction` on.
Trace recorded(std::int64_t computing, std::int64_t reduction,
               const std::vector<std::vector<Rank>>& groups = {{{0}, {1}, {2}, {3}}}) {
  Trace trace;
  trace.provenance.source = Source::recorded;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const std::size_t which = static_cast<std::size_t>(rank) % groups.size();
    const OpId op = trace.intern({.kind = CommKind::all_reduce,
                                  .dtype = DType::fp32,
                                  .phase = Phase::backward,
                                  .group = trace.groups.intern(groups[which]),
                                  .input = {k_elements},
                                  .output = {k_elements}});
    RankStream stream{.ranks = {{rank}, {rank}}};
    for (Iteration iteration = 0; iteration < 3; ++iteration) {
      const nanoseconds start(iteration * k_step);
      const nanoseconds begin = start + nanoseconds(reduction);
      stream.events.push_back({.op = op, .iteration = iteration});
      stream.times.push_back({begin, begin, begin + nanoseconds(300)});
      if (computing > 0) {
        stream.compute.push_back({start, start + nanoseconds(computing), iteration});
      }
    }
    trace.streams.push_back(std::move(stream));
  }
  return trace;
}

// 300 ns after 600 ns of computing: all exposed, and the computing could cover all of it. DeepSpeed then
// holds a second buffer of 2,000,000 fp32.
TEST(Overlap, IsNamedWhereReductionsFollowTheComputing) {
  const Trace trace = recorded(600, 600);
  const Advice advice = advised(job_of(false), {}, &trace);
  const Recommendation* const made = find(advice, "overlap");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->setting, "zero_optimization.overlap_comm: true in the DeepSpeed JSON");
  EXPECT_EQ(made->time_saved, nanoseconds(300));
  EXPECT_EQ(made->memory_added(), Bytes{2'000'000 * 4});
}

// Of 2 x 2 ranks, 0 and 2 (1 and 3) are along data, 0 and 1 (2 and 3) along tensor: a recording says ranks,
// not axes. Both halves of the ranks reduce 300 ns after their computing.
TEST(Overlap, KnowsDataRanksByTheirPlaces) {
  Job job = small_job("megatron", 4, 128);
  job.layout.dp = 2;
  job.layout.tp = 2;
  const Trace along_data = recorded(600, 600, {{{0}, {2}}, {{1}, {3}}});
  const Advice advice = advised(job, {}, &along_data);
  const Recommendation* const made = find(advice, "overlap");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->time_saved, nanoseconds(300));
  const Trace along_tensor = recorded(600, 600, {{{0}, {1}}, {{0}, {1}}, {{2}, {3}}, {{2}, {3}}});
  EXPECT_EQ(find(advised(job, {}, &along_tensor), "overlap"), nullptr);
}

// Only 100 ns of computing are there to cover 300 ns.
TEST(Overlap, SavesNoMoreThanComputingCovers) {
  const Trace trace = recorded(100, 600);
  const Advice advice = advised(job_of(false), {}, &trace);
  const Recommendation* const made = find(advice, "overlap");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->time_saved, nanoseconds(100));
}

TEST(Overlap, IsLeftWhereComputingCoversTheReductions) {
  const Trace trace = recorded(900, 500);
  const Advice advice = advised(job_of(false), {}, &trace);
  EXPECT_EQ(find(advice, "overlap"), nullptr);
  EXPECT_TRUE(says(advice.not_advised, "overlap: of a steady step"));
}

TEST(Overlap, IsLeftWhereTheSettingIsOn) {
  const Trace trace = recorded(600, 600);
  const Advice advice = advised(job_of(true), {}, &trace);
  EXPECT_EQ(find(advice, "overlap"), nullptr);
  EXPECT_TRUE(says(advice.not_advised, "has no setting left"));
}

TEST(Overlap, IsNotJudgedWithoutTimesOrComputing) {
  EXPECT_TRUE(says(advised(job_of(false)).not_judged, "overlap: give a recording"));
  const Trace trace = recorded(0, 600);
  EXPECT_TRUE(says(advised(job_of(false), {}, &trace).not_judged, "does not say when its ranks computed"));
}

}  // namespace
}  // namespace commlens
