#include "commlens/search/search.hpp"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "commlens/machine/machines.hpp"

namespace commlens {
namespace {

/// GPT-3 1.3B: 64 sequences on so many devices of a built-in machine.
SearchQuestion question_on(const std::string& machine, std::int64_t ranks) {
  SearchQuestion question;
  question.model = {.name = "1.3B", .layers = 24, .hidden = 2048, .heads = 16, .kv_heads = 16};
  question.model.head_dim = 128;
  question.model.ffn_hidden = 8192;
  question.model.sequence = 2048;
  question.model.vocab = 51'200;
  question.machine = find_machine(machine).value();
  question.ranks = ranks;
  question.global_batch = 64;
  return question;
}

std::string refusal(const SearchQuestion& question) {
  const Result<SearchAnswer> answer = search(question, built_in_calibration(), 1);
  return answer ? "" : answer.error().message;
}

TEST(SearchedRun, HasTheNumbersOfTheMachine) {
  const Result<SearchedRun> searched = searched_run(question_on("marenostrum5", 64), built_in_calibration());
  ASSERT_TRUE(searched) << searched.error().message;
  const RunHardware& hardware = searched->first().base.hardware;
  EXPECT_EQ(hardware.gpu, "H100");
  EXPECT_EQ(hardware.memory_bandwidth, 2000e9);
  EXPECT_EQ(hardware.network, 25e9);
  EXPECT_EQ(hardware.link, 450e9);
  EXPECT_EQ(hardware.domain, 4);
  EXPECT_EQ(searched->memory_limit, 64.0 * (std::int64_t{1} << 30));
  EXPECT_EQ(hardware_of(question_on("dgx_h100", 2).machine, 2)->domain, 2);
  EXPECT_EQ(hardware_of(question_on("gb200_nvl72", 144).machine, 144)->node, 4);
}

TEST(SearchedRun, TakesTheFamilyOfItsDeviceNetworkAndFramework) {
  const RunCalibration& calibration = built_in_calibration();
  const auto family = [&](const char* machine, const char* framework) {
    SearchQuestion question = question_on(machine, 8);
    question.framework = framework;
    return searched_run(question, calibration)->first().base.family;
  };
  EXPECT_EQ(family("dgx_h100", ""), "H100, nemo");
  EXPECT_EQ(family("hgx_b200", ""), "B200, megatron");
  EXPECT_EQ(family("dgx_a100", "fsdp"), "A100-80, 200 Gb/s, fsdp");
  EXPECT_EQ(family("marenostrum5", "nemo"), "H100, 200 Gb/s, nemo");
}

TEST(SearchedRun, SaysWhenItsTimesAreBorrowed) {
  const RunCalibration& calibration = built_in_calibration();
  const auto basis = [&](const char* machine) {
    return searched_run(question_on(machine, 8), calibration)->first().basis;
  };
  EXPECT_EQ(basis("dgx_h100").provenance, "calibrated on 170 runs of H100, nemo");
  EXPECT_EQ(basis("marenostrum5").provenance, "borrowed from H100, nemo");
  EXPECT_GT(basis("marenostrum5").spread, basis("dgx_h100").spread);
}

TEST(SearchedRun, TakesShardedParametersFromTheFrameworkThatWasMeasuredWithThem) {
  const RunCalibration& calibration = built_in_calibration();
  const auto searched = [&](const char* machine, const char* framework) {
    SearchQuestion question = question_on(machine, 8);
    question.framework = framework;
    return searched_run(question, calibration).value();
  };
  const SearchedRun nemo = searched("dgx_h100", "nemo");
  EXPECT_EQ(nemo.of(DataParallelKind::optimizer).basis.provenance, "calibrated on 170 runs of H100, nemo");
  EXPECT_LT(nemo.of(DataParallelKind::optimizer).basis.spread, 0.1);
  const TimedSpace& sharded = nemo.of(DataParallelKind::sharded);
  EXPECT_EQ(sharded.framework, "fsdp");
  EXPECT_EQ(sharded.basis.provenance, "calibrated on 77 runs of H100, fsdp");
  EXPECT_EQ(sharded.base.behaviour.gradient_bytes, 4);
  EXPECT_TRUE(sharded.base.behaviour.stops_repeating_early);
  // No run on B200 had sharded parameters.
  const TimedSpace unseen = searched("hgx_b200", "megatron").spaces.at(1);
  EXPECT_EQ(unseen.basis.provenance, "borrowed from B200, megatron, which has not seen sharded parameters");
  EXPECT_NEAR(unseen.basis.spread, 0.2623643, 1e-6);  // ln 1.3
  EXPECT_EQ(searched("dgx_h100", "fsdp").spaces.size(), 1);
}

TEST(Search, TimesShardedLayoutsAsTheirFamilySays) {
  const RunCalibration& calibration = built_in_calibration();
  const SearchAnswer answer = search(question_on("dgx_h100", 64), calibration, 2000).value();
  SearchQuestion question = question_on("dgx_h100", 64);
  question.framework = "fsdp";
  const SearchAnswer alone = search(question, calibration, 2000).value();
  std::map<std::string, double> seconds;
  for (const RankedLayout& layout : alone.ranking.fastest) {
    seconds.emplace(layout_text(layout.layout, layout.behaviour), layout.seconds);
  }
  std::int64_t compared = 0;
  for (const RankedLayout& layout : answer.ranking.fastest) {
    const std::string text = layout_text(layout.layout, layout.behaviour);
    if (is_sharded(layout.layout.data_kind) && seconds.contains(text)) {
      EXPECT_EQ(layout.seconds, seconds.at(text)) << text;
      ++compared;
    }
  }
  EXPECT_GT(compared, 20);
}

TEST(Search, AnswersWithTheTimesThatSimulateHas) {
  const RunCalibration& calibration = built_in_calibration();
  const Result<SearchAnswer> answer = search(question_on("dgx_h100", 16), calibration, 5);
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->ranking.fastest.size(), 5);
  for (const RankedLayout& layout : answer->ranking.fastest) {
    const TimedSpace& timed = answer->searched.of(layout.layout.data_kind);
    const RunPrediction prediction = predicted_run(run_of(timed.base, layout), calibration);
    EXPECT_NEAR(prediction.seconds / layout.seconds, 1, 1e-12);
    EXPECT_NEAR(prediction.memory_bytes / layout.memory_bytes, 1, 1e-12);
    EXPECT_NEAR(prediction.mfu / mfu_of(timed.base, layout), 1, 1e-12);
    EXPECT_EQ(prediction.provenance, timed.basis.provenance);
  }
}

TEST(Search, RefusesWhatHasNoLayoutAndSaysWhatBinds) {
  EXPECT_EQ(refusal(question_on("dgx_h100", 12)),
            "--gpus 12: nodes of dgx_h100 have 8 devices; take a multiple");
  EXPECT_EQ(refusal(question_on("perlmutter", 8000)),
            "--gpus 8000: perlmutter has 7168 devices, 1792 nodes of 4");
  SearchQuestion odd = question_on("dgx_h100", 8 * 17);
  EXPECT_EQ(
      refusal(odd),
      "--global-batch 64: 1.3B on 136 devices has at least 17 data ranks, and no number of them that is "
      "possible divides the batch");
  odd.global_batch = 17;
  EXPECT_EQ(refusal(odd), "");
  SearchQuestion large = question_on("dgx_h100", 1);
  large.model.layers = 240;
  EXPECT_EQ(refusal(large).substr(0, 85),
            "1.3B, 64 sequences, on 1 device of dgx_h100: memory binds: the smallest of 21 layouts");
  SearchQuestion other = question_on("dgx_h100", 8);
  other.framework = "none";
  EXPECT_EQ(refusal(other).substr(0, 33), "--framework none: choose fsdp, ow");
}

TEST(Search, ScalesFromOneDeviceUp) {
  const Result<ScaleAnswer> answer = scaled_search(question_on("dgx_h100", 32), built_in_calibration());
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->points.size(), 6);
  double before = 0;
  for (const ScalePoint& point : answer->points) {
    EXPECT_TRUE(point.reason.empty()) << point.reason;
    EXPECT_TRUE(before == 0 || point.layout.seconds < before) << point.ranks;
    EXPECT_EQ(point.layout.layout.ranks, point.ranks);
    before = point.layout.seconds;
  }
  EXPECT_EQ(answer->points.front().ranks, 1);
}

TEST(Search, RefusesPrecisionsThatTheDeviceDoesNotHave) {
  const auto error = [](const std::string& machine, MatrixPrecision precision) {
    SearchQuestion question = question_on(machine, 8);
    question.precision = precision;
    const Result<SearchedRun> searched = searched_run(question, built_in_calibration());
    return searched ? "" : searched.error().message;
  };
  EXPECT_EQ(error("dgx_a100", MatrixPrecision::fp8),
            "--precision fp8: dgx_a100 (NVIDIA A100) has no such products; take bf16");
  EXPECT_EQ(error("dgx_h100", MatrixPrecision::fp4),
            "--precision fp4: dgx_h100 (NVIDIA H100) has no such products; take bf16 or fp8");
  EXPECT_EQ(error("dgx_h100", MatrixPrecision::fp8), "");
  EXPECT_EQ(error("hgx_b200", MatrixPrecision::fp4), "");
}

TEST(Search, CountsTheMfuOfFp8AgainstTwiceThePeak) {
  SearchQuestion question = question_on("dgx_h100", 8);
  const Result<SearchAnswer> wide = search(question, built_in_calibration(), 1);
  question.precision = MatrixPrecision::fp8;
  const Result<SearchAnswer> small = search(question, built_in_calibration(), 1);
  ASSERT_TRUE(wide && small);
  const auto flops_over_peak = [](const SearchAnswer& answer) {
    const RankedLayout& first = answer.ranking.fastest.front();
    return mfu_of(answer.searched.first().base, first) * first.seconds;
  };
  EXPECT_NEAR(flops_over_peak(*wide) / flops_over_peak(*small), 2, 1e-12);
}

}  // namespace
}  // namespace commlens
