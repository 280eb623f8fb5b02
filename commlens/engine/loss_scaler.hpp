#pragma once
#include <cstdint>

#include "commlens/model/training_recipe.hpp"

namespace commlens::engine {

/// The factor that keeps the gradients of fp16 above its smallest number. It falls to half when gradients
/// overflow, as often as `hysteresis` allows, and doubles after `window` iterations without. Source:
/// DeepSpeed 0.14.0 runtime/fp16/loss_scaler.py DynamicLossScaler and LossScaler.
class LossScaler {
 public:
  /// The state in a checkpoint.
  struct State {
    double scale = 1;
    std::int64_t hysteresis_left = 1;
    std::int64_t iteration = 0;
    std::int64_t last_overflow = -1;
    std::int64_t skipped = 0;  // iterations without an update, because of overflow
  };

  /// `is_needed`: whether the model is in fp16; otherwise the factor is 1.
  LossScaler(const LossScaling& settings, bool is_needed);

  double scale() const { return state_.scale; }
  bool is_needed() const { return is_needed_; }
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }
  /// To be called after each iteration. False if gradients overflow at the least factor: the training cannot
  /// continue.
  bool update(bool overflowed);

 private:
  bool lower();

  LossScaling settings_;
  bool is_needed_;
  State state_;
};

}  // namespace commlens::engine
