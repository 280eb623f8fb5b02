// Settings besides the layout train equally in every layout: the optimizer and its schedule, the details of
// layers, initial values, the loss scale of fp16.
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "parity/training_run.hpp"

namespace commlens::engine::recipe_parity {
namespace {

constexpr std::int64_t k_steps = 10;
constexpr double k_fp32_tolerance = 1e-5;

TrainOptions options() { return {.iterations = k_steps, .schedule = {.peak = 1e-3, .minimum = 1e-4}}; }

/// One layout of a global batch of 8 sequences.
struct Layout {
  const char* name;
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  int zero = 0;
  std::int64_t micro_batches = 1;
  bool sequence_parallel = false;
};

using Recipe = void (*)(Job&);

Job job_of(const Layout& layout, Recipe recipe) {
  Job job = tiny_job_of(layout);
  job.layout.sequence_parallel = layout.sequence_parallel;
  recipe(job);
  return job;
}

/// Settings of a GPT-NeoX configuration, all different from the defaults.
void other_recipe(Job& job) {
  job.model.norm_epsilon = 1e-3;
  job.model.activation = Activation::gelu_tanh;
  job.model.rotary_base = 500;
  job.model.rotary_fraction = 0.5;
  job.model.initialisation = {InitMethod::small, InitMethod::wang, 0.05};
  job.train.gradient_clipping = 0.5;
}
void alibi(Job& job) {
  other_recipe(job);
  job.model.positions = Positions::alibi;
  job.model.activation = Activation::silu;
  job.model.initialisation = {InitMethod::xavier_uniform, InitMethod::xavier_normal, 0.05};
}
void sinusoidal(Job& job) {
  job.model.positions = Positions::sinusoidal;
  job.model.activation = Activation::relu;
  job.model.initialisation.deviation = 0.05;
}

void usual(Job&) {}
void fp16(Job& job) { job.train.dtype = DType::fp16; }
void clipped_fp16(Job& job) {
  fp16(job);
  job.train.gradient_clipping = 0.5;
}

/// GPT-NeoX's exponential decay after a warm-up, betas, epsilon and decay unlike the defaults.
TrainOptions other_options() {
  TrainOptions other = options();
  other.schedule = {.style = DecayStyle::exponential,
                    .peak = 5e-3,
                    .minimum = 1e-4,
                    .warmup = 2.5,
                    .iterations = 9,
                    .warms_up_from_zero = true,
                    .linear_to_zero = true};
  other.weight_decay = 0.3;
  other.beta1 = 0.8;
  other.beta2 = 0.99;
  other.epsilon = 1e-4;
  other.seed = 7;
  return other;
}

TEST(RecipeParity, OtherRecipesTrainAlikeInEveryLayout) {
  for (const Recipe recipe : {other_recipe, alibi, sinusoidal}) {
    const TrainingRun alone = train_on_threads("recipe-alone", job_of({"alone"}, recipe), other_options());
    for (const Layout& layout :
         {Layout{.name = "tp2", .tp = 2}, Layout{.name = "tp2_sp", .tp = 2, .sequence_parallel = true},
          Layout{.name = "pp2", .pp = 2, .micro_batches = 2}, Layout{.name = "zero3", .dp = 4, .zero = 3}}) {
      SCOPED_TRACE(layout.name);
      const Job job = job_of(layout, recipe);
      const TrainingRun run = train_on_threads("recipe", job, other_options());
      ASSERT_EQ(run.losses.size(), static_cast<std::size_t>(k_steps));
      for (std::size_t i = 0; i < run.losses.size(); ++i) {
        EXPECT_NEAR(run.losses[i], alone.losses[i], k_fp32_tolerance * alone.losses[i]) << "iteration " << i;
      }
      EXPECT_EQ(differences_from_prediction(job, run.trace, k_steps), std::vector<std::string>{});
    }
    EXPECT_LT(alone.losses.back(), alone.losses.front());
  }
}

TEST(RecipeParity, EachPartOfTheRecipeChangesTheLosses) {
  using Change = std::function<void(Job&, TrainOptions&)>;
  Job before = job_of({"usual"}, usual);
  before.model.initialisation.deviation = 0.1;  // large enough for positions to matter
  const std::vector<double> losses = train_on_threads("usual", before, options()).losses;
  const std::vector<Change> changes{
      [](Job& job, TrainOptions&) { job.model.norm_epsilon = 0.1; },
      [](Job& job, TrainOptions&) { job.model.activation = Activation::relu; },
      [](Job& job, TrainOptions&) { job.model.rotary_base = 100; },
      [](Job& job, TrainOptions&) { job.model.positions = Positions::alibi; },
      [](Job& job, TrainOptions&) { job.model.initialisation.deviation = 0.03; },
      [](Job& job, TrainOptions&) { job.model.initialisation.output_method = InitMethod::wang; },
      [](Job&, TrainOptions& other) { other.beta1 = 0.5; },
      [](Job&, TrainOptions& other) { other.beta2 = 0.5; },
      [](Job&, TrainOptions& other) { other.epsilon = 1e-3; },
      [](Job&, TrainOptions& other) { other.weight_decay = 10; },
      [](Job&, TrainOptions& other) { other.schedule.style = DecayStyle::linear; },
      [](Job&, TrainOptions& other) { other.schedule.warmup = 4; },
      [](Job&, TrainOptions& other) { other.schedule.iterations = 5; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Job job = before;
    TrainOptions other = options();
    changes[i](job, other);
    EXPECT_GT(std::abs(train_on_threads("changed", job, other).losses.back() - losses.back()), 1e-5)
        << "change " << i;
  }
}

/// At a loss scale of 2^60 every gradient overflows, and nothing is updated; a small one grows.
TEST(LossScaleParity, OverflowSkipsTheUpdateOfAllRanks) {
  for (const Layout& layout : {Layout{.name = "alone"}, Layout{.name = "ddp2", .dp = 2},
                               Layout{.name = "pp2", .pp = 2}, Layout{.name = "zero3", .dp = 4, .zero = 3}}) {
    SCOPED_TRACE(layout.name);
    const Job job = job_of(layout, layout.pp > 1 ? clipped_fp16 : fp16);
    TrainOptions large = options();
    large.loss_scaling = {.initial = std::exp2(60), .hysteresis = 1};
    const TrainingRun run = train_on_threads("overflow", job, large);
    EXPECT_EQ(run.skipped, std::vector<bool>(k_steps, true));
    EXPECT_EQ(run.loss_scales.front(), std::exp2(60));
    EXPECT_EQ(run.loss_scales.back(), std::exp2(61 - k_steps));
    EXPECT_EQ(run.rates, std::vector<double>(k_steps, options().schedule.peak));
    if (job.layout.dp * job.layout.pp > 1) {
      EXPECT_EQ(differences_from_prediction(job, run.trace, k_steps), std::vector<std::string>{});
    }
    TrainOptions small = options();
    small.loss_scaling = {.initial = 256, .window = 4};
    const TrainingRun grows = train_on_threads("grows", job, small);
    EXPECT_EQ(grows.skipped, std::vector<bool>(k_steps, false));
    EXPECT_EQ(grows.loss_scales, (std::vector<double>{256, 256, 256, 256, 512, 512, 512, 512, 1024, 1024}));
  }
}

TEST(LossScaleParity, OverflowAtTheLeastLossScaleEndsTheTraining) {
  TrainOptions hopeless = options();
  hopeless.loss_scaling = {.initial = std::exp2(60), .hysteresis = 1, .minimum = std::exp2(58)};
  EXPECT_THROW(train_on_threads("hopeless", job_of({"alone"}, fp16), hopeless), SystemError);
}

/// 6 iterations, then 4 more from the checkpoint.
TrainingRun interrupted(const Job& job, const TrainOptions& usual) {
  TrainOptions first = usual;
  first.stop_requested = [calls = std::make_shared<std::atomic<std::int64_t>>(0),
                          ranks = job.layout.dp * job.layout.tp * job.layout.pp] {
    return ++*calls > 5 * ranks;  // polled once per rank and iteration: in the sixth
  };
  first.save = scratch_directory("checkpoint");
  train_on_threads("first", job, first);
  TrainOptions second = usual;
  second.resume = first.save;
  return train_on_threads("second", job, second);
}

TEST(RecipeParity, TheScheduleGoesOnWhereItWas) {
  const Job job = job_of({.name = "", .dp = 2, .zero = 1}, alibi);
  const TrainingRun whole = train_on_threads("whole", job, other_options());
  const TrainingRun resumed = interrupted(job, other_options());
  EXPECT_EQ(resumed.losses, std::vector<double>(whole.losses.begin() + 6, whole.losses.end()));
}

TEST(LossScaleParity, TheLossScaleGoesOnWhereItWas) {
  const Job job = job_of({.name = "", .dp = 2, .zero = 1}, fp16);
  TrainOptions scaled = other_options();
  scaled.loss_scaling = {.initial = std::exp2(22), .window = 2, .hysteresis = 2};  // overflows at first
  const TrainingRun whole = train_on_threads("whole", job, scaled);
  EXPECT_TRUE(whole.skipped.front());
  EXPECT_FALSE(whole.skipped.back());
  const TrainingRun resumed = interrupted(job, scaled);
  EXPECT_EQ(resumed.losses, std::vector<double>(whole.losses.begin() + 6, whole.losses.end()));
  EXPECT_EQ(resumed.rates, std::vector<double>(whole.rates.begin() + 6, whole.rates.end()));
  EXPECT_EQ(resumed.loss_scales, std::vector<double>(whole.loss_scales.begin() + 6, whole.loss_scales.end()));
}

}  // namespace
}  // namespace commlens::engine::recipe_parity
