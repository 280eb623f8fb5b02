#include "commlens/engine/loss_scaler.hpp"

#include <algorithm>

namespace commlens::engine {
namespace {

constexpr double k_factor = 2;

}  // namespace

LossScaler::LossScaler(const LossScaling& settings, bool is_needed)
    : settings_(settings), is_needed_(is_needed) {
  state_.hysteresis_left = settings.hysteresis;
  if (is_needed) {
    state_.scale = settings.fixed > 0 ? settings.fixed : settings.initial;
  }
}

bool LossScaler::lower() {
  if (settings_.hysteresis > 1 && state_.hysteresis_left > 1) {
    --state_.hysteresis_left;
    return true;
  }
  if (state_.scale == settings_.minimum) {
    return false;
  }
  state_.scale = std::max(state_.scale / k_factor, settings_.minimum);
  return true;
}

bool LossScaler::update(bool overflowed) {
  if (!is_needed_) {
    return true;
  }
  state_.skipped += overflowed ? 1 : 0;
  const std::int64_t now = state_.iteration++;
  if (settings_.fixed > 0) {
    return true;
  }
  if (overflowed) {
    state_.last_overflow = now;
    return lower();
  }
  if (settings_.consecutive_hysteresis) {
    state_.hysteresis_left = settings_.hysteresis;
  }
  if ((now - state_.last_overflow) % settings_.window == 0) {
    state_.hysteresis_left = settings_.hysteresis;
    state_.scale *= k_factor;
  }
  return true;
}

}  // namespace commlens::engine
