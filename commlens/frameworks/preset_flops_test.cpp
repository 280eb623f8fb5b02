#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/presets.hpp"
#include "commlens/model/flops.hpp"

namespace commlens {
namespace {

struct Row {
  std::int64_t sequence;
  double with_recompute;
  double without;
};

TEST(Flops, EqualTheExpectedValuesOfFigures14And15) {  // facts/expected.json: 1.3B, b = 4, V = 50304
  const std::vector<Row> rows = {{512, 21'881'784'631'296.0, 16'727'823'876'096.0},
                                 {1024, 45'412'836'704'256.0, 34'692'598'333'440.0},
                                 {2048, 97'422'743'175'168.0, 74'332'998'991'872.0},
                                 {4096, 221'233'765'416'960.0, 168'457'207'283'712.0}};
  for (const Row& row : rows) {
    Job job = preset("1.3B").value();
    job.model.sequence = row.sequence;
    EXPECT_EQ(iteration_flops_per_rank(job).value, row.with_recompute) << row.sequence;
    job.train.recompute = Recompute::none;
    EXPECT_EQ(iteration_flops_per_rank(job).value, row.without) << row.sequence;
  }
}

TEST(Flops, SelectiveRecomputeRepeatsTheScoresOnly) {  // 12 s^2 h L b grows by 4 s^2 h L b
  Job job = preset("1.3B").value();
  job.train.recompute = Recompute::selective;
  EXPECT_EQ(micro_batch_flops(job).value, 74'332'998'991'872.0 + 4.0 * 2048 * 2048 * 2048 * 24 * 4);
}

TEST(Flops, AreSharedByTheRanksOfAReplica) {
  Job job = preset("1.3B").value();
  job.layout.tp = 2;
  job.layout.pp = 4;
  job.train.micro_batches = 16;
  EXPECT_EQ(iteration_flops_per_rank(job).value, 2 * 97'422'743'175'168.0);
}

TEST(Flops, CountTheChosenExpertsAndTheRouter) {
  Job job = preset("19M").value();
  job.train.recompute = Recompute::none;
  const double dense = micro_batch_flops(job).value;
  job.model.experts = 8;
  job.model.top_k = 2;
  // one more MLP of 8h^2 weights and a router of 8h, 6 operations each per token and layer
  const double more = 6.0 * (8.0 * 512 * 512 + 8.0 * 512) * 6 * 4 * 2048;
  EXPECT_EQ(micro_batch_flops(job).value, dense + more);
}

}  // namespace
}  // namespace commlens
