#include "commlens/model/training_recipe.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "commlens/base/text.hpp"

namespace commlens {
namespace {

constexpr std::array<std::string_view, 4> k_decay_names = {"constant", "linear", "cosine", "exponential"};
constexpr double k_exponent = 0.693;  // GPT-NeoX's; e to its negative is half, nearly

double decayed(const LearningRateSchedule& schedule, double done) {
  const double span = schedule.peak - schedule.minimum;
  switch (schedule.style) {
    case DecayStyle::constant:
      break;
    case DecayStyle::linear:
      return schedule.linear_to_zero ? schedule.peak * (1 - done)
                                     : schedule.peak - span * std::min(1.0, done);
    case DecayStyle::cosine:
      return schedule.minimum + span * 0.5 * (1 + std::cos(std::numbers::pi * std::min(1.0, done)));
    case DecayStyle::exponential:
      return schedule.peak * std::exp(-k_exponent * done);
  }
  return schedule.peak;
}

}  // namespace

Result<DecayStyle> decay_style_from(std::string_view name) {
  const auto found = std::find(k_decay_names.begin(), k_decay_names.end(), name);
  if (found == k_decay_names.end()) {
    const std::string meant = nearest(name, k_decay_names);
    return failure(fmt::format("there is no decay '{}'; {}choose from {}", name.substr(0, 40),
                               meant.empty() ? "" : fmt::format("did you mean '{}'? ", meant),
                               fmt::join(k_decay_names, ", ")));
  }
  return static_cast<DecayStyle>(found - k_decay_names.begin());
}

std::string_view name_of(DecayStyle style) { return k_decay_names.at(static_cast<std::size_t>(style)); }

double learning_rate_at(const LearningRateSchedule& schedule, std::int64_t iteration) {
  const auto now = static_cast<double>(iteration);
  if (schedule.warms_up_from_zero && schedule.warmup > 0 && now <= schedule.warmup) {
    return schedule.peak * now / schedule.warmup;
  }
  if (!schedule.warms_up_from_zero && now < schedule.warmup) {
    return schedule.peak * std::min(1.0, (now + 1) / schedule.warmup);
  }
  const double whole = schedule.iterations - schedule.warmup;
  const double done = whole > 0 ? (now - schedule.warmup) / whole : 1.0;
  return std::max(decayed(schedule, done), schedule.minimum);
}

}  // namespace commlens
