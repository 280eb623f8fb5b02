#include "commlens/simulate/run_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "commlens/base/check.hpp"
#include "commlens/simulate/iteration_time.hpp"

namespace commlens {
namespace {

constexpr double k_linear_beyond = 0.1;  // of an error of a logarithm
constexpr double k_prior_weight = 0.04;  // of a width
constexpr int k_most_steps = 60;
constexpr double k_small_step = 1e-4;  // of a logarithm, for slopes
constexpr double k_least_gain = 1e-7;  // of the cost, for another step

using Vector = std::vector<double>;

/// Solves a x = b for a symmetric positive matrix by Gaussian elimination with pivots.
Vector solved(std::vector<Vector> matrix, Vector right) {
  const std::size_t size = right.size();
  for (std::size_t column = 0; column < size; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < size; ++row) {
      pivot = std::abs(matrix[row][column]) > std::abs(matrix[pivot][column]) ? row : pivot;
    }
    std::swap(matrix[column], matrix[pivot]);
    std::swap(right[column], right[pivot]);
    for (std::size_t row = column + 1; row < size; ++row) {
      const double factor = matrix[row][column] / matrix[column][column];
      for (std::size_t other = column; other < size; ++other) {
        matrix[row][other] -= factor * matrix[column][other];
      }
      right[row] -= factor * right[column];
    }
  }
  for (std::size_t row = size; row-- > 0;) {
    for (std::size_t other = row + 1; other < size; ++other) {
      right[row] -= matrix[row][other] * right[other];
    }
    right[row] /= matrix[row][row];
  }
  return right;
}

/// The errors of a set of logarithms of coefficients.
class Problem {
 public:
  Problem(std::span<const TrainingRun* const> runs, const Coefficients& start,
          const std::vector<Coefficient>& fitted, const RunSeconds& seconds)
      : runs_(runs), start_(start), fitted_(fitted), seconds_(seconds) {}

  Vector start() const {
    Vector logs;
    for (const Coefficient coefficient : fitted_) {
      logs.push_back(std::log(start_[coefficient]));
    }
    return logs;
  }

  Coefficients at(const Vector& logs) const {
    Coefficients values = start_;
    for (std::size_t index = 0; index < fitted_.size(); ++index) {
      values[fitted_[index]] = std::exp(logs[index]);
    }
    return values;
  }

  void keep_inside(Vector& logs) const {
    for (std::size_t index = 0; index < fitted_.size(); ++index) {
      const CoefficientFacts& facts = facts_of(fitted_[index]);
      logs[index] = std::clamp(logs[index], std::log(facts.least), std::log(facts.most));
    }
  }

  Vector errors(const Vector& logs) const {
    const Coefficients values = at(logs);
    Vector errors;
    errors.reserve(runs_.size());
    for (const TrainingRun* const run : runs_) {
      errors.push_back(std::log(seconds_(*run, values) / *run->seconds));
    }
    return errors;
  }

  double cost(const Vector& logs, const Vector& errors) const {
    double sum = 0;
    for (const double error : errors) {
      const double share = error / k_linear_beyond;
      sum += 2 * k_linear_beyond * k_linear_beyond * (std::sqrt(1 + share * share) - 1);
    }
    const Vector from = start();
    for (std::size_t index = 0; index < logs.size(); ++index) {
      const double distance = k_prior_weight * (logs[index] - from[index]) / facts_of(fitted_[index]).width;
      sum += distance * distance;
    }
    return sum;
  }

  /// A step of damped Gauss-Newton from here.
  Vector step(const Vector& logs, const Vector& errors, double damping) const {
    const std::size_t size = logs.size();
    std::vector<Vector> slopes;
    for (std::size_t index = 0; index < size; ++index) {
      Vector moved = logs;
      moved[index] += k_small_step;
      slopes.push_back(this->errors(moved));
    }
    std::vector<Vector> matrix(size, Vector(size, 0.0));
    Vector right(size, 0.0);
    for (std::size_t run = 0; run < errors.size(); ++run) {
      const double share = errors[run] / k_linear_beyond;
      const double weight = 1 / std::sqrt(1 + share * share);
      for (std::size_t row = 0; row < size; ++row) {
        const double slope = (slopes[row][run] - errors[run]) / k_small_step;
        right[row] -= weight * slope * errors[run];
        for (std::size_t column = 0; column < size; ++column) {
          matrix[row][column] += weight * slope * (slopes[column][run] - errors[run]) / k_small_step;
        }
      }
    }
    const Vector from = start();
    for (std::size_t index = 0; index < size; ++index) {
      const double strength = k_prior_weight / facts_of(fitted_[index]).width;
      matrix[index][index] += strength * strength;
      right[index] -= strength * strength * (logs[index] - from[index]);
      matrix[index][index] *= 1 + damping;
    }
    return solved(std::move(matrix), std::move(right));
  }

 private:
  std::span<const TrainingRun* const> runs_;
  const Coefficients& start_;
  const std::vector<Coefficient>& fitted_;
  const RunSeconds& seconds_;
};

/// The nearest minimum, and its cost.
std::pair<Vector, double> minimum(const Problem& problem, Vector logs) {
  problem.keep_inside(logs);
  Vector errors = problem.errors(logs);
  double cost = problem.cost(logs, errors);
  double damping = 1e-2;
  for (int step = 0; step < k_most_steps && damping < 1e6; ++step) {
    Vector next = problem.step(logs, errors, damping);
    for (std::size_t index = 0; index < next.size(); ++index) {
      next[index] = logs[index] + std::clamp(next[index], -1.0, 1.0);
    }
    problem.keep_inside(next);
    Vector next_errors = problem.errors(next);
    const double next_cost = problem.cost(next, next_errors);
    if (!(next_cost < cost)) {
      damping *= 5;
      continue;
    }
    const bool is_done = cost - next_cost < k_least_gain * (cost + 1e-9);
    logs = std::move(next);
    errors = std::move(next_errors);
    cost = next_cost;
    damping = std::max(damping / 5, 1e-9);
    if (is_done) {
      break;
    }
  }
  return {logs, cost};
}

bool any(std::span<const TrainingRun* const> runs, bool (*holds)(const TrainingRun&)) {
  return std::any_of(runs.begin(), runs.end(), [&](const TrainingRun* run) { return holds(*run); });
}

bool has_shards(const TrainingRun& run) { return is_sharded(run.layout.data_kind); }
bool is_all_sharded(std::span<const TrainingRun* const> runs) {
  return std::all_of(runs.begin(), runs.end(), [](const TrainingRun* run) { return has_shards(*run); });
}
bool is_of_several(const TrainingRun& run) { return run.layout.ranks > 1; }
bool has_owners(const TrainingRun& run) { return run.layout.data_kind == DataParallelKind::owners; }
bool has_host(const TrainingRun& run) { return run.behaviour.has_host_optimizer; }
bool is_small(const TrainingRun& run) { return run.behaviour.precision != MatrixPrecision::bf16; }
bool is_unfused(const TrainingRun& run) { return !run.behaviour.has_fused_attention; }
bool leaves_domain(const TrainingRun& run) { return run.layout.ranks > run.hardware.domain; }
bool hides_tensor(const TrainingRun& run) { return run.behaviour.overlaps_tensor && run.layout.tensor > 1; }
/// Whether products were measured alone, on their device.
bool has_tables(const TrainingRun& run) {
  return std::any_of(run.priors.begin(), run.priors.end(),
                     [](const auto& prior) { return prior.first == Coefficient::half_inner; });
}
bool has_experts(const TrainingRun& run) { return run.layout.expert > 1; }

}  // namespace

std::vector<Coefficient> coefficients_of(std::span<const TrainingRun* const> runs) {
  using enum Coefficient;
  std::vector<Coefficient> fitted;
  const bool is_small_node = any(runs, is_unfused) && !any(runs, leaves_domain);
  if (!is_small_node || !has_tables(*runs.front())) {
    fitted.push_back(gemm_efficiency);
  }
  const auto add = [&](bool is_seen, std::initializer_list<Coefficient> more) {
    for (const Coefficient coefficient : more) {
      if (is_seen && fitted.size() < k_most_fitted) {
        fitted.push_back(coefficient);
      }
    }
  };
  add(any(runs, is_small), {fp8_efficiency});
  // Where each layer waits for its parameters, launches are hidden: nothing tells them from memory-bound
  // work.
  add(!is_all_sharded(runs), {layer_launch});
  if (any(runs, has_owners)) {
    add(true, {memory_factor, network_share, overlap, contention, owner, optimizer_bytes});
    return fitted;
  }
  if (any(runs, has_host)) {
    add(any(runs, is_unfused), {score_bytes});
    add(true, {memory_factor, network_share, link_share, host_bytes});
    return fitted;
  }
  if (is_small_node) {
    add(true, {memory_factor, score_bytes, launch_floor, micro_batch, step, logits});
    return fitted;
  }
  add(!any(runs, is_unfused), {attention_efficiency});
  add(any(runs, is_unfused), {score_bytes});
  add(true, {memory_factor});
  add(is_all_sharded(runs), {contention});
  add(any(runs, hides_tensor), {tensor_hidden});
  add(any(runs, has_experts), {exchange});
  add(!is_all_sharded(runs) && any(runs, leaves_domain), {hop});
  add(any(runs, is_of_several) && !any(runs, leaves_domain), {link_share});
  add(!any(runs, leaves_domain), {optimizer_bytes});
  // One device alone: what an iteration takes beside its kernels is no part of any message.
  add(!any(runs, is_of_several), {step});
  return fitted;
}

double closed_form_seconds(const TrainingRun& run, const Coefficients& with) {
  return iteration_time(run, with).total();
}

Coefficients start_of(const TrainingRun& run) {
  Coefficients start;
  start.set(run.priors);
  return start;
}

RunFit fit_runs(std::span<const TrainingRun* const> runs, const Coefficients& start,
                const std::vector<Coefficient>& fitted, const RunSeconds& seconds) {
  COMMLENS_CHECK(!runs.empty(), "a fit needs measured runs");
  const Problem problem(runs, start, fitted, seconds);
  // Launches have two minima: hidden behind the floor, or beside the kernels.
  Vector best;
  double least = std::numeric_limits<double>::infinity();
  const double usual = facts_of(Coefficient::layer_launch).prior;
  const bool has_launch = std::find(fitted.begin(), fitted.end(), Coefficient::layer_launch) != fitted.end();
  const std::vector<double> launches =
      has_launch ? std::vector<double>{usual, 0.16 * usual, 2 * usual} : std::vector<double>{usual};
  for (const double launch : launches) {
    Vector logs = problem.start();
    for (std::size_t index = 0; index < fitted.size(); ++index) {
      logs[index] = fitted[index] == Coefficient::layer_launch ? std::log(launch) : logs[index];
    }
    if (auto [found, cost] = minimum(problem, logs); cost < least) {
      best = std::move(found);
      least = cost;
    }
  }
  return {problem.at(best), fitted};
}

}  // namespace commlens
