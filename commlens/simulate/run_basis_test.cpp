#include "commlens/simulate/run_basis.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace commlens {
namespace {

FamilyFit family(const std::string& gpu, const std::string& framework, std::int64_t rows) {
  FamilyFit fit;
  fit.name = gpu + ", " + framework;
  fit.gpu = gpu;
  fit.rows = rows;
  fit.has_bf16 = true;
  fit.has_fused = true;
  fit.longest_sequence = 4096;
  fit.spread = 0.05;
  fit.coefficients[Coefficient::gemm_efficiency] = 0.5;
  return fit;
}

TrainingRun run_on(const std::string& gpu, const std::string& framework) {
  TrainingRun run;
  run.family = gpu + ", " + framework;
  run.hardware.gpu = gpu;
  run.model.sequence = 2048;
  return run;
}

double factor(const RunBasis& basis) { return std::exp(basis.spread); }

TEST(RunBasis, TakesTheFamilyItselfThenAlikeDevicesThenTheMakersThenOtherFrameworks) {
  RunCalibration calibration;
  calibration.families = {family("H100", "megatron", 5), family("A100-80", "megatron", 50),
                          family("H200", "fsdp", 20), family("H200", "megatron", 9)};
  const TrainingRun run = run_on("H200", "megatron");
  EXPECT_EQ(basis_of(run, calibration).provenance, "calibrated on 9 runs of H200, megatron");
  EXPECT_NEAR(basis_of(run, calibration).spread, 0.05, 1e-12);
  calibration.families.pop_back();
  EXPECT_EQ(basis_of(run, calibration).provenance, "borrowed from H100, megatron");
  EXPECT_NEAR(factor(basis_of(run, calibration)), 1.3, 1e-12);
  calibration.families.erase(calibration.families.begin());
  EXPECT_EQ(basis_of(run, calibration).provenance, "borrowed from A100-80, megatron");
  EXPECT_NEAR(factor(basis_of(run, calibration)), 1.65, 1e-12);
  calibration.families.erase(calibration.families.begin());
  EXPECT_EQ(basis_of(run, calibration).provenance, "borrowed from H200, fsdp");
  EXPECT_NEAR(factor(basis_of(run, calibration)), 1.65, 1e-12);
}

TEST(RunBasis, TakesNothingFromAnotherMaker) {
  RunCalibration calibration;
  calibration.families = {family("H100", "megatron", 5)};
  const RunBasis basis = basis_of(run_on("MI250X GCD", "megatron"), calibration);
  EXPECT_EQ(basis.provenance, "uncalibrated: no measured run of this device or framework");
  EXPECT_NEAR(factor(basis), 2, 1e-12);
}

TEST(RunBasis, OfADeviceWithTablesKeepsItsMatrixProducts) {
  RunCalibration calibration;
  calibration.families = {family("H100", "megatron", 5)};
  const RunBasis basis = basis_of(run_on("A100-80", "megatron"), calibration);
  EXPECT_EQ(basis.coefficients[Coefficient::gemm_efficiency], 0.771);
  EXPECT_EQ(basis_of(run_on("H200", "megatron"), calibration).coefficients[Coefficient::gemm_efficiency],
            0.5);
}

TEST(RunBasis, OfAFamilyOfOneModelIsWiderForOthers) {
  RunCalibration calibration;
  calibration.families = {family("H100", "megatron", 5)};
  calibration.families[0].only_model = "GPT-3 175B";
  TrainingRun run = run_on("H100", "megatron");
  run.model.name = "GPT-3 175B";
  EXPECT_NEAR(basis_of(run, calibration).spread, 0.05, 1e-12);
  run.model.name = "Llama 3 8B";
  EXPECT_EQ(basis_of(run, calibration).provenance,
            "calibrated on 5 runs of H100, megatron, all of GPT-3 175B");
  EXPECT_NEAR(factor(basis_of(run, calibration)), 1.15, 1e-12);
}

TEST(RunBasis, OfAnotherTrainerIsBorrowed) {
  RunCalibration calibration;
  calibration.families = {family("H100", "fsdp", 77)};
  TrainingRun run = run_on("H100", "fsdp");
  run.has_other_trainer = has_other_trainer("torchtitan");
  EXPECT_EQ(basis_of(run, calibration).provenance,
            "borrowed from H100, fsdp, which has not seen this trainer");
  EXPECT_NEAR(factor(basis_of(run, calibration)), 1.35, 1e-12);
  EXPECT_FALSE(has_other_trainer("megatron"));
  EXPECT_TRUE(has_other_trainer("torch-fsdp"));
  EXPECT_EQ(frameworks_of_job("torch-fsdp").front()->name, "fsdp");
}

TEST(RunBasis, OfAMixtureIsBorrowedFromRunsWithoutExperts) {
  RunCalibration calibration;
  calibration.families = {family("H100", "fsdp", 77)};
  TrainingRun run = run_on("H100", "fsdp");
  run.model.experts = 8;
  EXPECT_EQ(basis_of(run, calibration).provenance,
            "borrowed from H100, fsdp, which has not seen mixtures of experts");
  calibration.families[0].fitted = {Coefficient::exchange};
  EXPECT_EQ(basis_of(run, calibration).provenance, "calibrated on 77 runs of H100, fsdp");
}

TEST(RunBasis, KnowsTheFrameworkWhoseRunsOnADeviceWereSharded) {
  RunCalibration calibration;
  calibration.families = {family("H100", "fsdp", 7), family("H100", "nemo", 170),
                          family("V100", "megatron-deepspeed", 9)};
  EXPECT_EQ(measured_with_shards("H100", calibration)->name, "fsdp");
  EXPECT_EQ(measured_with_shards("V100", calibration)->name, "megatron-deepspeed");
  EXPECT_EQ(measured_with_shards("B200", calibration), nullptr);
}

TEST(RunBasis, NamesTheFamilyByItsNetworkWhereThatIsNotTheUsualOne) {
  RunCalibration calibration;
  calibration.families = {family("H100", "nemo", 5)};
  RunHardware hardware;
  hardware.gpu = "H100";
  hardware.network = 50e9;  // as the list of devices has it
  EXPECT_EQ(family_of_run(hardware, "nemo", calibration), "H100, nemo");
  hardware.network = 25e9;
  EXPECT_EQ(family_of_run(hardware, "nemo", calibration), "H100, 200 Gb/s, nemo");
}

TEST(RunBasis, PrefersTheFrameworkWithTheMostRunsOnTheDevice) {
  RunCalibration calibration;
  calibration.families = {family("B200", "nemo", 1), family("B200", "megatron", 43),
                          family("H100", "nemo", 170)};
  const std::vector<const RunFramework*> frameworks = frameworks_of_job("megatron");
  EXPECT_EQ(most_measured(frameworks, "B200", calibration)->name, "megatron");
  EXPECT_EQ(most_measured(frameworks, "A100-80", calibration)->name, "nemo");
  EXPECT_EQ(most_measured(frameworks, "A100-80", {})->name, frameworks.front()->name);
}

}  // namespace
}  // namespace commlens
