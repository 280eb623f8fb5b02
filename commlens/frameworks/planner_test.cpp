#include "commlens/frameworks/planner.hpp"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/neox/options.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens {
namespace {

Job preset_job(std::string_view model, const Overrides& flags) {
  return validated(with_overrides(preset(model).value(), flags).value()).value();
}

std::string refusal(const Overrides& flags, const std::function<void(Job&)>& change = [](Job&) {}) {
  Job job = preset_job("19M", flags);
  change(job);
  const Result<Plan> plan = make_plan(job);
  return plan ? "" : plan.error().message;
}

testing::AssertionResult holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos ? testing::AssertionSuccess()
                                              : testing::AssertionFailure() << "'" << text << "'";
}

TEST(MakePlan, RefusesByNameWhatARuleSetDoesNotKnow) {
  EXPECT_TRUE(holds(refusal({.pp = 2, .zero = 2}), "ZeRO-2 with DeepSpeed's pipeline engine is refused"));
  EXPECT_TRUE(holds(refusal({.framework = "deepspeed", .tp = 2}),
                    "use a case file with options.replicated_tensor_parallel"));
  EXPECT_TRUE(holds(refusal({.cp = 2}), "context parallelism (--cp)"));
  EXPECT_TRUE(holds(refusal({.pp = 2, .schedule = Schedule::gpipe}), "1F1B pipelines only"));
  EXPECT_TRUE(holds(refusal({.recompute = Recompute::selective}), "no selective recompute"));
  EXPECT_TRUE(holds(refusal({.framework = "torch-ddp", .pp = 2}), "1F1B needs at least 2 micro"));
  const auto old = [](Job& job) { job.framework_version = "1.13"; };
  EXPECT_TRUE(holds(refusal({.framework = "torch-ddp", .pp = 2}, old), "data parallel only"));
  EXPECT_TRUE(holds(refusal({.framework = "torch-ddp", .recompute = Recompute::selective}, old), "leave"));
  EXPECT_TRUE(holds(refusal({.framework = "paper", .schedule = Schedule::gpipe}), "pipeline schedules"));
  EXPECT_TRUE(holds(refusal({.framework = "megatron", .zero = 3}), "no ZeRO-3"));
  EXPECT_TRUE(holds(refusal({.framework = "megatron", .pp = 4}), "cannot be divided over 4 stages"));
  const auto oldest = [](Job& job) { job.framework_version = "core_v0.7.0"; };
  EXPECT_TRUE(holds(refusal({.framework = "megatron", .pp = 4}, oldest), "divisible"));
}

TEST(MakePlan, RefusesSequenceParallelismWhereItDidNotExist) {
  EXPECT_TRUE(holds(refusal({.tp = 2}, [](Job& job) { job.layout.sequence_parallel = true; }),
                    "came to GPT-NeoX with 8b43196f"));
}

TEST(MakePlan, RefusesAnOrderOfRanksThatTheFrameworkDoesNotHave) {
  EXPECT_EQ(refusal({}, [](Job& job) { job.layout.order = "tp-cp-ep-pp-dp"; }),
            "the neox rules number ranks in the order tp-cp-ep-dp-pp alone, not tp-cp-ep-pp-dp; other rules "
            "may cover it");
}

// The groups are those of a recorded run of Megatron with --use-tp-pp-dp-mapping on 8 ranks, tp 2, pp 2,
// dp 2.
TEST(MakePlan, NumbersRanksInMegatronsOtherOrder) {
  const auto change = [](Job job) {
    job.layout.order = "tp-cp-ep-pp-dp";
    job.model.tied_embeddings = false;
    return make_plan(validated(job).value()).value();
  };
  const Plan plan =
      change(preset_job("19M", {.framework = "megatron", .ranks = 8, .tp = 2, .pp = 2, .zero = 0}));
  ASSERT_EQ(plan.classes.size(), 2U) << "one a stage";
  EXPECT_EQ(plan.classes[0].ranks, (RankRange{Rank{0}, Rank{5}, 2, 4})) << "0, 1, 4, 5";
  EXPECT_EQ(plan.classes[1].ranks, (RankRange{Rank{2}, Rank{7}, 2, 4})) << "2, 3, 6, 7";
  std::map<std::string, std::set<std::vector<std::int64_t>>> groups;
  const Trace trace = plan.trace(1);
  for (const RankStream& stream : trace.streams) {
    for (const CommEvent& event : stream.events) {
      const CommOp& op = trace.op(event.op);
      for (const Rank rank : stream.ranks) {
        std::vector<std::int64_t> members;
        for (const Rank member : trace.groups.members(op.group, rank)) {
          members.push_back(member.value);
        }
        groups[std::string(name_of(op.kind == CommKind::recv ? CommKind::send : op.kind)) + " " +
               std::string(name_of(trace.groups.axis(op.group)))]
            .insert(members);
      }
    }
  }
  using Groups = std::set<std::vector<std::int64_t>>;
  EXPECT_EQ(groups["all_reduce tp"], (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups["all_reduce dp"], (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups["all_reduce model"], (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(groups["send pp"], (Groups{{0, 2}, {1, 3}, {2, 0}, {3, 1}, {4, 6}, {5, 7}, {6, 4}, {7, 5}}));
  EXPECT_FALSE(plan.unverified.empty());
}

TEST(MakePlan, RefusesPartitionMethodsThatAreNoWords) {
  const auto method = [](const char* text) {
    return refusal({.pp = 2}, [&](Job& job) { neox::options(job).partition_method = text; });
  };
  EXPECT_EQ(method("type:transformer|mlp"), "");
  EXPECT_EQ(method("uniform"), "");
  EXPECT_TRUE(holds(method("type:(.*.*.*)*Q"), "is not supported"));
  EXPECT_TRUE(holds(method("best"), "is not supported"));
}

/// On four stages of 12 layers the parameters are balanced with the embedding alone on the first.
TEST(MakePlan, SaysThatStagesWithoutNormsWouldWaitForEver) {
  const auto plan = [](std::int64_t stages) {
    return make_plan(preset_job("125M", {.framework = "deepspeed", .pp = stages}));
  };
  ASSERT_FALSE(plan(4).has_value());
  EXPECT_TRUE(holds(plan(4).error().message, "different numbers of parameter groups"));
  EXPECT_TRUE(plan(2).has_value());
}

TEST(MakePlan, UsesTheNearestRulesForAnUnknownVersion) {
  Job job = preset_job("19M", {.framework = "deepspeed"});
  job.framework_version = "0.13.1";
  const Plan unknown = make_plan(job).value();
  EXPECT_FALSE(unknown.tables.provenance.verified);
  ASSERT_EQ(unknown.job.warnings.size(), 1U);
  EXPECT_EQ(
      unknown.job.warnings[0],
      "framework_version 0.13.1 is unknown; the rules of deepspeed 0.14.0, the oldest version known, are "
      "used, unverified");
  job.framework_version = "0.14.0+cu118";
  EXPECT_TRUE(make_plan(job).value().tables.provenance.verified);
}

TEST(MakePlan, ComparesVersionsByTheirParts) {
  const auto reasons = [](const char* framework, const char* version) {
    Job job = preset_job("19M", {.framework = framework, .dtype = DType::fp32, .recompute = Recompute::none});
    job.framework_version = version;
    const Plan plan = make_plan(validated(job).value()).value();
    return plan.unverified.empty() ? "" : plan.unverified.front();
  };
  EXPECT_EQ(
      reasons("megatron", "core_v0"),
      "version core_v0 was never recorded, the rules are those of core_v0.7.0, the oldest version known");
  EXPECT_EQ(reasons("megatron", "0.8.0"),
            "version 0.8.0 was never recorded, the rules are those of core_v0.7.0, the nearest older "
            "version known");
  EXPECT_EQ(reasons("megatron", "core_v0.7"),
            "version core_v0.7 was never recorded, the rules are those of core_v0.7.0");
  EXPECT_EQ(reasons("neox", "deadbeef"),
            "version deadbeef was never recorded, the rules are those of 4bc66703, the default version");
  EXPECT_EQ(reasons("megatron", "core_v0.7.0"), "");
  EXPECT_EQ(reasons("deepspeed", "0.14.0rc9"),
            "version 0.14.0rc9 was never recorded, the rules are those of 0.14.0, the oldest version known");
  EXPECT_EQ(reasons("deepspeed", "0.14.0"), "");
  EXPECT_EQ(reasons("torch-ddp", "1.131"),
            "version 1.131 was never recorded, the rules are those of 1.13, the nearest older version known");
  EXPECT_EQ(reasons("torch-ddp", "1.13.1"), "");
}

TEST(MakePlan,
     ClaimsOfTorchDdpWhatWasRecorded) {  // golden/torch_ddp: fp32 models of family gpt, nothing else
  const auto reasons = [](
                           const Overrides& flags, const std::function<void(Job&)>& change = [](Job&) {}) {
    Job job = preset_job("19M", flags);
    job.framework_version = "1.13";
    change(job);
    return make_plan(job).value().unverified;
  };
  using Reasons = std::vector<std::string>;
  Overrides ddp{.framework = "torch-ddp", .dp = 2, .dtype = DType::fp32, .recompute = Recompute::none};
  EXPECT_EQ(reasons(ddp), Reasons());
  EXPECT_EQ(reasons(ddp, [](Job& job) { pytorch::options(job).ddp.static_graph = true; }),
            Reasons({"static_graph"}));
  EXPECT_EQ(reasons(ddp, [](Job& job) { job.model.tied_embeddings = true; }), Reasons({"tied embeddings"}));
  ddp.dtype = DType::bf16;
  ddp.recompute = Recompute::full;
  EXPECT_EQ(reasons(ddp), Reasons({"gradients in fp16 or bf16", "recomputation"}));
}

TEST(MakePlan, SettingsThatAreLeftOutMakeItUnverified) {
  Job job = preset_job("19M", {});
  job.unmodelled = {"'tensor_parallel' (ds.json:2) has no rules"};
  job.model.vocab_is_assumed = true;
  const Plan plan = make_plan(job).value();
  EXPECT_FALSE(plan.tables.provenance.verified);
  EXPECT_EQ(plan.unverified, std::vector<std::string>(
                                 {"'tensor_parallel' (ds.json:2) has no rules",
                                  "the vocabulary, which the configuration leaves open: 50257 is assumed"}));
}

TEST(MakePlan, SaysWhyItIsUnverified) {
  EXPECT_TRUE(make_plan(preset_job("19M", {})).value().unverified.empty());
  const Plan plan = make_plan(preset_job("19M", {.dp = 2, .zero = 3})).value();
  EXPECT_EQ(plan.unverified, std::vector<std::string>{"GPT-NeoX under ZeRO-3"});
}

TEST(MakePlan, MergesStagesThatDoTheSame) {
  const Plan plan =
      make_plan(preset_job("13B", {.framework = "megatron", .ranks = 64, .tp = 2, .pp = 8})).value();
  std::int64_t ranks = 0;
  for (const RankClass& rank_class : plan.classes) {
    ranks += rank_class.ranks.count();
  }
  EXPECT_EQ(ranks, 64);
  // Five layers on every stage: the first with the embedding, six alike, the last with the head.
  EXPECT_EQ(plan.classes.size(), 3U);
}

TEST(MakePlan, RefusesARankOutsideTheJob) {
  const Result<Plan> plan = make_plan(preset_job("19M", {.dp = 2}), Rank{2});
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().message, "there is no rank 2 in a job of 2 ranks");
}

}  // namespace
}  // namespace commlens
