#include "commlens/frameworks/megatron/parameter_shards.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/megatron/settings.hpp"
#include "commlens/frameworks/megatron/source.hpp"

namespace commlens::megatron {
namespace {

const Rule k_own_gather{
    "megatron.fsdp_gather",
    k_new_source<"core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py:4707">};
const Rule k_own_scatter{"megatron.fsdp_reduce_scatter",
                         k_new_source<"core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py">};
const Rule k_own_start{"megatron.fsdp_start",
                       k_new_source<"core/distributed/fsdp/src/megatron_fsdp/uneven_dtensor.py:51">};
const Rule k_own_check{"megatron.fsdp_start",
                       k_new_source<"core/distributed/fsdp/src/megatron_fsdp/uneven_dtensor.py:191">};
const Rule k_torch_gather{"megatron.fsdp_gather",
                          k_new_source<"core/distributed/torch_fully_sharded_data_parallel.py">};
const Rule k_torch_scatter{"megatron.fsdp_reduce_scatter",
                           k_new_source<"core/distributed/torch_fully_sharded_data_parallel.py">};

constexpr std::int64_t k_largest_bucket = 40'000'000;  // elements, of parameters outside of units
constexpr std::int64_t k_shape_bytes = 21;             // of a pickled list of two sizes in recorded runs

bool is_outside(const ModuleParameter& parameter) { return parameter.place.layer < 0; }

}  // namespace

ParameterShards::ParameterShards(const StageContext& stage)
    : stage_(stage), ranks_(stage.out.tables().groups.size(stage.groups.dp_cp)) {
  if (is_own()) {
    add_own_units();
  } else {
    add_torch_units();
  }
}

bool ParameterShards::shards_parameters() const {
  return stage_.options.sharding == Sharding::optim_grads_params;
}

/// Each row of a matrix stays whole (param_and_grad_buffer.py:279-305).
void ParameterShards::close_own(std::vector<ModuleParameter>& open, std::int64_t layer) {
  if (open.empty()) {
    return;
  }
  Unit unit{.layer = layer};
  std::int64_t row = 1;
  for (const ModuleParameter& parameter : open) {
    unit.count += parameter.count;
    row = std::lcm(row, parameter.columns);
    unit.dimensions.push_back(parameter.columns > 1 ? 2 : 1);
  }
  std::stable_sort(unit.dimensions.begin(), unit.dimensions.end(), std::greater<>());
  unit.count = round_up(unit.count, ranks_ * row);
  units_.push_back(std::move(unit));
  open.clear();
}

/// A layer is a unit where parameters are sharded; all else is cut at a size.
void ParameterShards::add_own_units() {
  std::vector<ModuleParameter> open;
  std::int64_t count = 0;
  const std::vector<ModuleParameter>& all = stage_.parameters.front();
  for (const ModuleParameter& parameter : all) {
    if (shards_parameters() && !is_outside(parameter)) {
      continue;
    }
    open.push_back(parameter);
    count += parameter.count;
    if (count >= k_largest_bucket) {
      close_own(open, -1);
      count = 0;
    }
  }
  close_own(open, -1);
  for (std::int64_t layer = 0; shards_parameters() && layer < stage_.chunks.front().layers; ++layer) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(open),
                 [&](const ModuleParameter& parameter) { return parameter.place.layer == layer; });
    close_own(open, layer);
  }
}

/// The root with the head and the final norm, the embedding, the layers; parameters are cut along their rows.
void ParameterShards::add_torch_units() {
  const auto add = [&](std::int64_t layer, auto belongs) {
    Unit unit{.layer = layer};
    for (const ModuleParameter& parameter : stage_.parameters.front()) {
      if (belongs(parameter)) {
        unit.count += round_up(parameter.count / parameter.columns, ranks_) * parameter.columns;
      }
    }
    units_.push_back(std::move(unit));
  };
  const auto is_embedding = [](const ModuleParameter& parameter) {
    return parameter.place.module == Module::wte || parameter.place.module == Module::wpe;
  };
  add(-1,
      [&](const ModuleParameter& parameter) { return is_outside(parameter) && !is_embedding(parameter); });
  add(-1, is_embedding);
  for (std::int64_t layer = 0; layer < stage_.chunks.front().layers; ++layer) {
    add(layer, [&](const ModuleParameter& parameter) { return parameter.place.layer == layer; });
  }
}

void ParameterShards::gather(const Unit& unit) {
  stage_.out.all_gather(stage_.groups.dp_cp, {unit.count / ranks_}, stage_.job.train.dtype,
                        is_own() ? k_own_gather : k_torch_gather, "parameters");
}

/// Megatron scales before it sums; PyTorch takes the mean.
void ParameterShards::reduce(const Unit& unit) {
  stage_.out.set_reduction(is_own() ? Reduction::premul_sum : Reduction::avg);
  stage_.out.reduce_scatter(stage_.groups.dp_cp, {unit.count / ranks_},
                            is_own() ? gradient_dtype_of(stage_.job) : stage_.job.train.dtype,
                            is_own() ? k_own_scatter : k_torch_scatter, "gradients");
  stage_.out.set_reduction(Reduction::sum);
}

/// Of each sharded parameter the ranks tell each other their part, and check that the parts are whole.
void ParameterShards::start() {
  if (!is_own()) {
    return;
  }
  ProgramBuilder& out = stage_.out;
  const auto gather_shapes = [&] {
    out.set_match(Match::count);
    out.all_gather(stage_.groups.dp_cp, {1}, DType::int64, k_own_start, "length of a shape");
    out.all_gather(stage_.groups.dp_cp, {k_shape_bytes}, DType::uint8, k_own_start, "shape");
    out.set_match(Match::exact);
  };
  for (const Unit& unit : units_) {
    for (const std::size_t dimensions : unit.dimensions) {
      gather_shapes();
      out.set_reduction(Reduction::max);
      out.all_reduce(stage_.groups.dp_cp, {static_cast<std::int64_t>(2 * dimensions)}, DType::int32,
                     k_own_check, "ends of a shape");
      out.set_reduction(Reduction::sum);
      gather_shapes();
    }
  }
}

void ParameterShards::begin(bool is_first, bool follows_evaluation) {
  is_first_ = is_first;
  // By the step before, unless an evaluation used it.
  is_gathered_ = is_own() && !is_first && !(follows_evaluation && shards_parameters());
  has_run_ = false;
}

/// Megatron: all units of the first micro-batch twice ahead of anything, later ones once. What is outside of
/// units stays gathered.
void ParameterShards::forward() {
  for (const Unit& unit : units_) {
    const bool stays = is_own() && (unit.layer < 0 || !shards_parameters());
    if (!is_gathered_ && (!stays || !has_run_)) {
      gather(unit);
    }
  }
  if (is_own() && is_first_ && !has_run_) {
    for (const Unit& unit : units_) {
      if (unit.layer >= 0) {
        gather(unit);
      }
    }
  }
}

void ParameterShards::backward() {
  if (!is_own()) {
    gather(units_.front());
    return;
  }
  const bool is_ahead = is_first_ && !has_run_;  // gathered with the forward pass
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
    if (unit->layer >= 0 && !is_ahead) {
      gather(*unit);
    }
  }
}

void ParameterShards::backward_ends(bool is_last_micro_batch) {
  has_run_ = true;
  is_gathered_ = false;
  if (is_own()) {
    const bool reduces = stage_.options.sharding != Sharding::optim || is_last_micro_batch;
    for (auto unit = units_.rbegin(); reduces && unit != units_.rend(); ++unit) {
      reduce(*unit);
    }
    return;
  }
  // Each layer is gathered while the one behind it is under way; the root is reduced ahead of the embedding.
  const std::size_t layers = units_.size() - 2;
  for (std::size_t layer = layers; layer > 0; --layer) {
    if (layer == layers) {
      gather(units_[layer + 1]);
    }
    gather(layer > 1 ? units_[layer] : units_[1]);
    reduce(units_[layer + 1]);
  }
  reduce(units_[0]);
  reduce(units_[1]);
}

void ParameterShards::evaluate() {
  forward();
  is_gathered_ = is_gathered_ && !shards_parameters();
}

void ParameterShards::step_ends() {
  is_gathered_ = is_own();
  for (const Unit& unit : units_) {
    if (is_own()) {
      gather(unit);
    }
  }
}

}  // namespace commlens::megatron
