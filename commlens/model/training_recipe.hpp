#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens {

/// How the learning rate falls after the warm-up.
enum class DecayStyle : std::uint8_t { constant, linear, cosine, exponential };
/// "constant", "linear", "cosine" or "exponential"; the error names the choices.
Result<DecayStyle> decay_style_from(std::string_view name);
std::string_view name_of(DecayStyle style);

/// The learning rate of every iteration. Iterations may be fractions: warm-ups are given as parts of the
/// whole.
struct LearningRateSchedule {
  DecayStyle style = DecayStyle::cosine;
  double peak = 6e-4;
  double minimum = 6e-5;
  double warmup = 0;      // iterations
  double iterations = 0;  // the whole, warm-up included; 0: those of the run
  /// GPT-NeoX and Megatron-LM begin the warm-up with a rate of 0; otherwise iteration 0 has the first step of
  /// it.
  bool warms_up_from_zero = false;
  /// GPT-NeoX: linear decay aims at 0 and is cut off at the minimum; otherwise it aims at the minimum.
  bool linear_to_zero = false;
};

/// The rate of iteration `iteration`, counted from 0 without those that overflowed. Linear: a straight line;
/// cosine: half a period from the peak to the minimum; exponential: half the peak at the end, cut off at the
/// minimum. Source: gpt-neox 4bc66703 megatron/learning_rates.py AnnealingLR.get_lr.
double learning_rate_at(const LearningRateSchedule& schedule, std::int64_t iteration);

/// How the loss of a model in fp16 is scaled, defaults of DeepSpeed 0.14.0.
struct LossScaling {
  double fixed = 0;             // loss_scale; 0: by overflows
  double initial = 65536;       // 2 to the initial_scale_power
  std::int64_t window = 1000;   // iterations without overflow after which it doubles
  std::int64_t hysteresis = 2;  // overflows until it halves, less one
  bool consecutive_hysteresis = false;
  double minimum = 1;
};

/// Settings of the optimizer from a configuration; the trainer decides absent ones.
struct TrainingRecipe {
  std::optional<double> learning_rate;
  std::optional<double> min_learning_rate;
  std::optional<DecayStyle> decay;
  std::optional<double> warmup;                  // iterations
  std::optional<double> warmup_fraction;         // of decay_iterations
  std::optional<std::int64_t> decay_iterations;  // of the schedule, warm-up included
  bool warms_up_from_zero = false;
  bool linear_to_zero = false;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> epsilon;
  std::optional<double> weight_decay;  // of matrices and embeddings
  std::optional<std::int64_t> seed;
  LossScaling loss_scaling;
  /// Tokens that attention looks back, where the configuration limits them: sliding_window=4096.
  struct Window {
    std::string key;
    std::int64_t tokens = 0;
  };
  std::optional<Window> attention_window;
  /// Keys that would change the numbers and that our trainer does not have: "attention_dropout=0.1 (no
  /// dropout)".
  std::vector<std::string> not_honoured;
};

}  // namespace commlens
