#include "commlens/plan/schemes/pipeline.hpp"

#include <algorithm>
#include <limits>

namespace commlens {
namespace {

struct StageSlot {
  std::int64_t micro_batch = 0;  // may lie outside [0, micro_batches): an idle slot
  bool is_forward = true;
};

/// Which micro-batch a stage works on in a step, as the parity of step and stage decides.
StageSlot work_at(std::int64_t step, std::int64_t stage, std::int64_t stages) {
  const bool even_step = step % 2 == 0;
  const bool even_stage = stage % 2 == 0;
  if (even_step == even_stage) {
    return {(even_step ? step / 2 : (step - 1) / 2) - stage / 2, true};
  }
  if (even_step) {
    return {step / 2 - stages + (stage + 1) / 2, false};
  }
  return {(step - 1) / 2 - stages + 1 + stage / 2, false};
}

}  // namespace

StageBounds partition_uniform(std::int64_t items, std::int64_t stages) {
  StageBounds bounds{0};
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const std::int64_t size =
        items <= stages ? (stage < items ? 1 : 0) : items / stages + (stage < items % stages ? 1 : 0);
    bounds.push_back(bounds.back() + size);
  }
  return bounds;
}

StageBounds partition_balanced(std::span<const std::int64_t> weights, std::int64_t stages) {
  const auto items = static_cast<std::int64_t>(weights.size());
  if (items <= stages) {
    return partition_uniform(items, stages);
  }
  constexpr std::int64_t infinite = std::numeric_limits<std::int64_t>::max() / 4;
  const auto width = static_cast<std::size_t>(stages) + 1;
  const auto cell = [&](std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>(i) * width + static_cast<std::size_t>(j);
  };
  std::vector<std::int64_t> prefix(static_cast<std::size_t>(items) + 1, 0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    prefix[i + 1] = prefix[i] + weights[i];
  }
  const std::size_t cells = prefix.size() * width;
  std::vector<std::int64_t> cost(cells, infinite);
  std::vector<std::int64_t> largest(cells, infinite);
  std::vector<std::int64_t> smallest(cells, infinite);
  std::vector<std::int64_t> split(cells, 0);
  cost[cell(0, 0)] = 0;
  largest[cell(0, 0)] = 0;
  // The first i items on j stages: the best last stage begins at item k.
  const auto split_at_best = [&](std::int64_t i, std::int64_t j) {
    for (std::int64_t k = 0; k < i; ++k) {
      const std::int64_t last = prefix[static_cast<std::size_t>(i)] - prefix[static_cast<std::size_t>(k)];
      const std::int64_t most = std::max(largest[cell(k, j - 1)], last);
      const std::int64_t least = std::min(smallest[cell(k, j - 1)], last);
      if (cost[cell(i, j)] >= most - least) {
        cost[cell(i, j)] = most - least;
        largest[cell(i, j)] = most;
        smallest[cell(i, j)] = least;
        split[cell(i, j)] = k;
      }
    }
  };
  for (std::int64_t i = 1; i <= items; ++i) {
    for (std::int64_t j = 1; j <= std::min(i, stages); ++j) {
      split_at_best(i, j);
    }
  }
  StageBounds bounds(width, items);
  std::int64_t end = items;
  for (std::int64_t stage = stages; stage > 0; --stage) {
    end = split[cell(end, stage)];
    bounds[static_cast<std::size_t>(stage) - 1] = end;
  }
  return bounds;
}

std::vector<PipelineStep> one_f_one_b_with_transfers(std::int64_t stage, std::int64_t stages,
                                                     std::int64_t micro_batches) {
  using Kind = PipelineStep::Kind;
  std::vector<PipelineStep> steps;
  const auto is_valid = [&](std::int64_t micro_batch) {
    return micro_batch >= 0 && micro_batch < micro_batches;
  };
  const bool has_previous = stage > 0;
  const bool has_next = stage + 1 < stages;
  std::int64_t before = -1;
  for (std::int64_t step = 0; step < 2 * (micro_batches + stages - 1); ++step) {
    const StageSlot work = work_at(step, stage, stages);
    const bool now_valid = is_valid(work.micro_batch);
    if (work.is_forward) {
      if (is_valid(before) && has_previous) {
        steps.push_back({Kind::send_grad, before});
      }
      if (now_valid && has_previous) {
        steps.push_back({Kind::recv_activation, work.micro_batch});
      }
    } else {
      if (now_valid && has_next) {
        steps.push_back({Kind::recv_grad, work.micro_batch});
      }
      if (is_valid(before) && has_next) {
        steps.push_back({Kind::send_activation, before});
      }
    }
    if (now_valid && work.is_forward && (!has_previous || !has_next)) {
      steps.push_back({Kind::load, work.micro_batch});
    }
    if (now_valid) {
      steps.push_back({work.is_forward ? Kind::forward : Kind::backward, work.micro_batch});
    }
    before = work.micro_batch;
  }
  return steps;
}

std::vector<ComputeStep> one_f_one_b(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches) {
  std::vector<ComputeStep> steps;
  const std::int64_t warmup = std::min(stages - stage - 1, micro_batches);
  for (std::int64_t i = 0; i < warmup; ++i) {
    steps.push_back({true, i, 0});
  }
  for (std::int64_t i = warmup; i < micro_batches; ++i) {
    steps.push_back({true, i, 0});
    steps.push_back({false, i - warmup, 0});
  }
  for (std::int64_t i = micro_batches - warmup; i < micro_batches; ++i) {
    steps.push_back({false, i, 0});
  }
  return steps;
}

std::vector<ComputeStep> gpipe(std::int64_t micro_batches) {
  std::vector<ComputeStep> steps;
  for (const bool is_forward : {true, false}) {
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      steps.push_back({is_forward, i, 0});
    }
  }
  return steps;
}

std::vector<ComputeStep> interleaved_1f1b(std::int64_t stage, std::int64_t stages, std::int64_t chunks,
                                          std::int64_t micro_batches) {
  std::vector<ComputeStep> steps;
  for (const std::vector<ComputeStep>& slot : interleaved_slots(stage, stages, chunks, micro_batches)) {
    steps.insert(steps.end(), slot.begin(), slot.end());
  }
  return steps;
}

std::vector<std::vector<ComputeStep>> interleaved_slots(std::int64_t stage, std::int64_t stages,
                                                        std::int64_t chunks, std::int64_t micro_batches) {
  const std::int64_t total = micro_batches * chunks;
  const std::int64_t warmup =
      micro_batches == stages ? total : std::min((stages - stage - 1) * 2 + (chunks - 1) * stages, total);
  const auto step_of = [&](std::int64_t index, bool is_forward) {
    const std::int64_t in_round = index % (stages * chunks);
    const std::int64_t chunk = in_round / stages;
    return ComputeStep{is_forward, index / (stages * chunks) * stages + index % stages,
                       is_forward ? chunk : chunks - 1 - chunk};
  };
  std::vector<std::vector<ComputeStep>> slots;
  for (std::int64_t i = 0; i < warmup; ++i) {
    slots.push_back({step_of(i, true)});
  }
  for (std::int64_t i = warmup; i < total; ++i) {
    slots.push_back({step_of(i, true), step_of(i - warmup, false)});
  }
  for (std::int64_t i = total - warmup; i < total; ++i) {
    slots.push_back({step_of(i, false)});
  }
  return slots;
}

}  // namespace commlens
