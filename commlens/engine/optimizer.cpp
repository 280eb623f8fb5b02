#include "commlens/engine/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "commlens/engine/adamw.hpp"

namespace commlens::engine {
namespace {

/// Adjacent segments with equal settings, as one run of elements.
struct Run {
  std::int64_t offset = 0;
  std::int64_t count = 0;
  bool flag = false;
};

template <typename Flag>
std::vector<Run> runs_of(const UnitStorage& unit, const Flag& flag_of) {
  std::vector<Run> runs;
  for (const OwnedSegment& segment : unit.segments()) {
    const bool flag = flag_of(segment.parameter);
    if (!runs.empty() && runs.back().flag == flag &&
        runs.back().offset + runs.back().count == segment.offset) {
      runs.back().count += segment.count;
    } else {
      runs.push_back({segment.offset, segment.count, flag});
    }
  }
  return runs;
}

}  // namespace

Optimizer::Optimizer(const Job& job, const TrainOptions& options, DataParallel& parameters,
                     RankGroups& groups)
    : clipping_(job.train.gradient_clipping),
      stage_(job.train.zero_stage),
      options_(options),
      scaler_(options.loss_scaling, job.train.dtype == DType::fp16),
      parameters_(parameters),
      groups_(groups) {
  if (options_.schedule.iterations <= 0) {
    options_.schedule.iterations = static_cast<double>(options_.iterations);
  }
}

Optimizer::Step Optimizer::step(std::int64_t iteration) {
  const torch::NoGradGuard no_grad;
  const std::int64_t updates = iteration - scaler_.state().skipped;
  Step result{.learning_rate = learning_rate_at(options_.schedule, updates), .loss_scale = scaler_.scale()};
  result.skipped = scaler_.is_needed() && overflowed();
  double scale = 1.0 / static_cast<double>(groups_.dp->size()) / result.loss_scale;
  if (clipping_ > 0) {
    const double norm =
        global_norm() * scale;  // also computed without an update, so that calls stay the same
    result.norm = result.skipped ? 0 : norm;
    scale *= std::min(1.0, clipping_ / (norm + 1e-6));
  }
  if (!scaler_.update(result.skipped)) {
    throw SystemError(
        fmt::format("gradients overflow fp16 at the least loss scale {:g} in iteration {}; lower --lr, or "
                    "use --dtype bf16",
                    result.loss_scale, iteration));
  }
  for (std::size_t chunk = 0; chunk < parameters_.chunk_count() && !result.skipped; ++chunk) {
    for (UnitStorage& unit : parameters_.units(chunk)) {
      update(unit, chunk, updates, scale);
    }
  }
  return result;
}

/// Whether any rank's gradients have a number that is not finite.
bool Optimizer::overflowed() {
  torch::Tensor flag = torch::zeros({1}, parameters_.units(0).front().master.options());
  for (std::size_t chunk = 0; chunk < parameters_.chunk_count(); ++chunk) {
    for (UnitStorage& unit : parameters_.units(chunk)) {
      if (!unit.owned_gradient.sum().isfinite().item<bool>()) {  // inf and nan stay in a sum
        flag.fill_(1.0);
      }
    }
  }
  all_reduce(*groups_.world, flag, "gradient.overflow", Completion::now, ReduceOp::max);
  return flag.item<double>() > 0;
}

/// Norm of the summed gradient over all distinct parameters: copies on tensor ranks or both ends of the
/// pipeline count once.
double Optimizer::global_norm() {
  const bool is_first_tensor_rank = groups_.where.tensor == 0;
  const bool is_first_stage = groups_.where.pipeline == 0;
  torch::Tensor square = torch::zeros({1}, parameters_.units(0).front().master.options());
  for (std::size_t chunk = 0; chunk < parameters_.chunk_count(); ++chunk) {
    const HeldChunk& held = parameters_.chunk(chunk);
    const auto counts = [&](std::size_t row) {
      const bool is_copy = static_cast<std::int64_t>(row) == held.tied_copy && !is_first_stage;
      return !is_copy && (is_first_tensor_rank || held.parameters[row].split != TensorSplit::replicated);
    };
    for (UnitStorage& unit : parameters_.units(chunk)) {
      for (const Run& run : runs_of(unit, counts)) {
        if (run.flag) {
          const torch::Tensor part = unit.owned_gradient.narrow(0, run.offset, run.count);
          square.add_(torch::dot(part, part));
        }
      }
    }
  }
  all_reduce(stage_ > 0 ? *groups_.world : *groups_.model, square, "gradient.norm", Completion::now);
  return std::sqrt(square.item<double>());
}

void Optimizer::update(UnitStorage& unit, std::size_t chunk, std::int64_t step, double gradient_scale) {
  AdamwStep by{.rate = learning_rate_at(options_.schedule, step),
               .beta1 = options_.beta1,
               .beta2 = options_.beta2,
               .epsilon = options_.epsilon,
               .gradient_scale = gradient_scale,
               .correction1 = 1.0 - std::pow(options_.beta1, static_cast<double>(step + 1)),
               .correction2 = 1.0 - std::pow(options_.beta2, static_cast<double>(step + 1))};
  const HeldChunk& held = parameters_.chunk(chunk);
  const auto decays = [&](std::size_t row) { return held.parameters[row].decays; };
  for (const Run& run : runs_of(unit, decays)) {
    by.weight_decay = run.flag ? options_.weight_decay : 0.0;
    const auto part = [&](const torch::Tensor& owned) { return owned.narrow(0, run.offset, run.count); };
    adamw(by, part(unit.owned_gradient), part(unit.master), part(unit.first_moment),
          part(unit.second_moment));
  }
}

}  // namespace commlens::engine
