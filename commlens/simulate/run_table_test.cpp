#include "commlens/simulate/run_table.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

constexpr const char* k_names =
    "id,layers,hidden,heads,ffn,vocab,seq,gpu,gpus,tp,pp,dp_kind,micro_batch,global_batch,precision,overlap,"
    "framework,seconds_per_iteration\n";

std::vector<RunRow> rows_of(const std::string& lines) {
  const Result<std::vector<RunRow>> rows = parse_run_table("runs.csv", k_names + lines);
  EXPECT_TRUE(rows) << (rows ? "" : rows.error().message);
  return rows.value_or(std::vector<RunRow>());
}

TEST(RunTable, ReadsModelLayoutAndBehaviour) {
  const std::vector<RunRow> rows = rows_of(
      "a,32,4096,32,16384,50000,2048,NVIDIA H100,64,4,2,zero1,1,128,fp8,ub_tp=true grad=true,NeMo,1.5\n");
  ASSERT_EQ(rows.size(), 1U);
  const TrainingRun& run = rows[0].run;
  EXPECT_EQ(rows[0].reason, "");
  EXPECT_EQ(run.model.head_dim, 128);
  EXPECT_EQ(run.layout.data(), 8);
  EXPECT_EQ(run.layout.micro_batches(), 16);
  EXPECT_EQ(run.layout.data_kind, DataParallelKind::optimizer);
  EXPECT_EQ(run.behaviour.precision, MatrixPrecision::fp8);
  EXPECT_TRUE(run.behaviour.overlaps_tensor);
  EXPECT_TRUE(run.behaviour.overlaps_gradients);
  EXPECT_FALSE(run.behaviour.overlaps_parameters);
  EXPECT_EQ(run.family, "H100, nemo");
  EXPECT_EQ(run.seconds, 1.5);
}

TEST(RunTable, SaysWhyARowCannotBeExpressed) {
  const std::vector<RunRow> rows = rows_of(
      "a,,4096,32,16384,50000,2048,H100,8,1,1,fsdp,1,8,bf16,,,\n"
      "b,32,4096,32,16384,50000,2048,abacus,8,1,1,fsdp,1,8,bf16,,,\n"
      "c,32,4096,32,16384,50000,2048,H100,8,3,1,fsdp,1,8,bf16,,,\n"
      "d,32,4096,32,16384,50000,2048,H100,8,1,1,fsdp,3,8,bf16,,,\n"
      "e,32,4096,32,16384,50000,2048,H100,8,1,1,fsdp,1,x,bf16,,,\n"
      "f,32,4096,32,16384,50000,2048,H100,8,99999999999,1,fsdp,1,8,bf16,,,\n"
      "g,32,4096,32,16384,50000,2048,H100,8,1,1,fsdp,1.5,8,bf16,,,\n"
      "h,32,-1,32,16384,50000,2048,H100,8,1,1,fsdp,1,8,bf16,,,\n");
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_EQ(rows[0].reason, "layers is not stated");
  EXPECT_EQ(rows[1].reason, "gpu 'abacus' is not known");
  EXPECT_EQ(rows[2].reason, "8 devices are no multiple of tp x pp x cp = 3");
  EXPECT_EQ(rows[3].reason, "8 sequences are no multiple of 8 data-parallel ranks times micro-batches of 3");
  EXPECT_EQ(rows[4].reason, "global_batch is 'x'");
  EXPECT_EQ(rows[5].reason, "tp is '99999999999', which is no count of a run");
  EXPECT_EQ(rows[6].reason, "micro_batch is '1.5', which is no count of a run");
  EXPECT_EQ(rows[7].reason, "hidden is '-1'");
}

TEST(RunTable, RefusesWhatIsNoTable) {
  EXPECT_EQ(parse_run_table("x.csv", "id,layers\na,1\n").error().message,
            "x.csv: has no column 'hidden' (docs/time-model.md has the list)");
  EXPECT_EQ(parse_run_table("x.csv", k_names).error().message, "x.csv: has no rows");
  const std::string row = "a,32,4096,32,16384,50000,2048,H100,8,1,1,fsdp,1,8,bf16,,,\n";
  EXPECT_EQ(parse_run_table("x.csv", k_names + row + row).error().message, "x.csv:3: id 'a' is there twice");
}

}  // namespace
}  // namespace commlens
