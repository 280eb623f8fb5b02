#include "commlens/engine/data_parallel.hpp"

#include <algorithm>
#include <utility>

#include "commlens/base/check.hpp"
#include "commlens/engine/quantize.hpp"
#include "commlens/frameworks/commlens/options.hpp"

namespace commlens::engine {
namespace {

bool touches(const HeldModule& module, const FlatUnit& unit) {
  return std::any_of(unit.parameters.begin(), unit.parameters.end(), [&](std::size_t row) {
    return std::find(module.parameters.begin(), module.parameters.end(), row) != module.parameters.end();
  });
}

std::vector<std::size_t> touched_units(const HeldModule& module, const std::vector<FlatUnit>& units) {
  std::vector<std::size_t> touched;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (touches(module, units[i])) {
      touched.push_back(i);
    }
  }
  return touched;
}

/// to += from, for any types. A sum of two types would first copy all of one; this does it piece by piece.
void add_in_pieces(const torch::Tensor& to, const torch::Tensor& from) {
  constexpr std::int64_t k_host_piece = std::int64_t{1} << 18;
  const std::int64_t count = to.numel();
  const std::int64_t piece = to.is_cpu() && to.scalar_type() != from.scalar_type() ? k_host_piece : count;
  for (std::int64_t first = 0; first < count; first += piece) {
    const std::int64_t length = std::min(piece, count - first);
    to.narrow(0, first, length).add_(from.narrow(0, first, length));
  }
}

}  // namespace

DataParallel::DataParallel(const Job& job, std::vector<HeldChunk> chunks, RankGroups& groups,
                           const Overlap& overlap, torch::Device device)
    : stage_(job.train.zero_stage),
      options_(trainer::options(job)),
      train_(job.train),
      overlap_(overlap),
      gathered_(groups.dp->starting_pays() ? Completion::later : Completion::now),
      groups_(groups) {
  const Sharding sharding{stage_, groups.dp->size(), groups.dp->rank().value, job.train.hpz};
  for (HeldChunk& held : chunks) {
    Chunk chunk;
    const std::vector<FlatUnit> units = flat_units(job, held);
    for (const FlatUnit& unit : units) {
      chunk.units.emplace_back(unit, held, sharding, scalar_type_of(job.train.dtype), device);
    }
    for (const HeldModule& module : held.modules) {
      chunk.of_module.push_back(stage_ == 3 ? units_of(module, units) : touched_units(module, units));
    }
    chunk.modules_left.resize(units.size());
    chunk.held = std::move(held);
    gathers_.emplace_back(units.size());
    chunks_.push_back(std::move(chunk));
  }
}

std::vector<torch::Tensor> DataParallel::parameters(std::size_t chunk, std::size_t module) const {
  const Chunk& owner = chunks_[chunk];
  std::vector<torch::Tensor> parameters;
  for (const std::size_t row : owner.held.modules[module].parameters) {
    for (const UnitStorage& unit : owner.units) {
      if (const torch::Tensor* const parameter = unit.parameter(row)) {
        parameters.push_back(*parameter);
      }
    }
  }
  COMMLENS_CHECK(parameters.size() == owner.held.modules[module].parameters.size(),
                 "every parameter lies in exactly one unit");
  return parameters;
}

void DataParallel::begin_iteration() {
  const torch::NoGradGuard no_grad;
  for (Chunk& chunk : chunks_) {
    for (UnitStorage& unit : chunk.units) {
      if (stage_ < 2) {
        unit.allocate_gradient();
      }
      if (unit.owned_gradient.data_ptr() != unit.gradient.data_ptr()) {
        unit.owned_gradient.zero_();
      }
    }
  }
}

void DataParallel::before_forward(std::size_t chunk, std::size_t module) {
  if (stage_ == 3) {
    const auto next = static_cast<std::int64_t>(module) + 1;
    gather_module(chunk, module, next < std::ssize(chunks_[chunk].held.modules) ? next : -1, false);
  }
}

void DataParallel::after_forward(std::size_t chunk, std::size_t module, bool stays) {
  if (stage_ == 3 && !stays) {
    for (const std::size_t unit : chunks_[chunk].of_module[module]) {
      chunks_[chunk].units[unit].release_parameters();
    }
  }
}

void DataParallel::before_backward(std::size_t chunk, std::size_t module) {
  Chunk& owner = chunks_[chunk];
  if (module + 1 == owner.held.modules.size()) {
    for (std::size_t i = 0; i < owner.units.size(); ++i) {
      owner.modules_left[i] = std::count_if(owner.of_module.begin(), owner.of_module.end(), [&](auto& units) {
        return std::find(units.begin(), units.end(), i) != units.end();
      });
      if (stage_ == 3 && owner.units[i].unit().is_persistent) {
        owner.units[i].allocate_gradient();
      }
    }
  }
  if (stage_ == 3) {
    gather_module(chunk, module, static_cast<std::int64_t>(module) - 1, true);
  }
  for (const std::size_t unit : owner.of_module[module]) {
    if (stage_ >= 2 && !owner.units[unit].has_gradient()) {
      owner.units[unit].allocate_gradient();
    }
  }
}

void DataParallel::after_backward(std::size_t chunk, std::size_t module, bool is_last) {
  Chunk& owner = chunks_[chunk];
  std::vector<UnitStorage*> done;
  for (const std::size_t index : owner.of_module[module]) {
    UnitStorage& unit = owner.units[index];
    if (stage_ == 3) {
      unit.release_parameters();
      done.push_back(&unit);
    } else if (--owner.modules_left[index] == 0 && (stage_ == 2 || is_last)) {
      done.push_back(&unit);
    }
  }
  if (stage_ == 3 || (stage_ == 2 && !done.empty())) {
    finish_reductions();  // only what one module completed is under way; a tied unit is free for its next
                          // module
  }
  for (UnitStorage* const unit : done) {
    reduce(*unit);
  }
}

void DataParallel::end_backward(std::size_t chunk) {
  if (stage_ == 3) {
    for (UnitStorage& unit : chunks_[chunk].units) {
      if (unit.unit().is_persistent) {
        reduce(unit);
      }
    }
  }
  if (stage_ >= 2) {
    finish_reductions();
  }
}

void DataParallel::finish_gradients() {
  finish_reductions();
  sum_tied();
}

void DataParallel::share_updated() {
  std::vector<TensorWork> works;
  for (Chunk& chunk : chunks_) {
    for (UnitStorage& unit : chunk.units) {
      unit.publish();
      if (stage_ > 0 && unit.keeps_parameters()) {
        works.push_back(all_gather(*groups_.dp, unit.shard.clone(), unit.flat, "parameters", gathered_));
      }
    }
  }
  for (TensorWork& work : works) {
    work.wait();
  }
}

void DataParallel::start_gather(std::size_t chunk, std::size_t index, bool is_for_backward) {
  UnitStorage& unit = chunks_[chunk].units[index];
  Gather& gather = gather_of(chunk, index);
  gather.is_under_way = true;
  gather.is_for_backward = is_for_backward;
  unit.allocate_parameters();
  if (is_for_backward && train_.hpz > 1) {
    gather.work = all_gather(*groups_.block, unit.secondary, unit.flat, "parameters.hpz", gathered_);
  } else if (train_.quantized_weights && groups_.dp->size() > 1) {
    const torch::Tensor bytes = quantized(unit.shard.unsqueeze(0), QuantizedBits::int8).view({-1});
    gather.bytes = torch::empty({groups_.dp->size() * bytes.numel()}, bytes.options());
    gather.work = all_gather(*groups_.dp, bytes, gather.bytes, "parameters.qwz", gathered_);
  } else {
    gather.work = all_gather(*groups_.dp, unit.shard, unit.flat, "parameters", gathered_);
  }
}

void DataParallel::finish_gather(std::size_t chunk, std::size_t index) {
  const torch::NoGradGuard no_grad;
  UnitStorage& unit = chunks_[chunk].units[index];
  Gather& gather = gather_of(chunk, index);
  gather.work.wait();
  gather.is_under_way = false;
  if (gather.bytes.defined()) {
    const torch::Tensor rows = gather.bytes.view({groups_.dp->size(), -1});
    // Bypasses the version counter of tensors saved by autograd, as a gather does.
    unit.flat.variable_data().copy_(dequantized(rows, unit.owned_count(), QuantizedBits::int8).view({-1}));
    gather.bytes = torch::Tensor();
  }
  if (!gather.is_for_backward && unit.secondary.defined()) {
    const std::int64_t count = unit.secondary.numel();
    unit.secondary.copy_(unit.flat.narrow(0, groups_.block->rank().value * count, count));
  }
}

/// Gathers a module's units (unless they are gathered already) and starts to gather those of module `next`,
/// -1: none.
void DataParallel::gather_module(std::size_t chunk, std::size_t module, std::int64_t next,
                                 bool is_for_backward) {
  Chunk& owner = chunks_[chunk];
  const auto is_absent = [&](std::size_t unit) {
    return !gather_of(chunk, unit).is_under_way && owner.units[unit].flat.storage().nbytes() == 0;
  };
  for (const std::size_t unit : owner.of_module[module]) {
    if (is_absent(unit)) {
      start_gather(chunk, unit, is_for_backward);
    }
  }
  for (const std::size_t unit : owner.of_module[module]) {
    if (gather_of(chunk, unit).is_under_way) {
      finish_gather(chunk, unit);
    }
  }
  if (next < 0 || !overlap_.gathers) {
    return;
  }
  for (const std::size_t unit : owner.of_module[static_cast<std::size_t>(next)]) {
    if (is_absent(unit)) {
      start_gather(chunk, unit, is_for_backward);
    }
  }
}

void DataParallel::reduce(UnitStorage& unit) {
  Reduction reduction{&unit, {}, {}};
  const Completion completion = overlap_.reductions ? Completion::later : Completion::now;
  const bool is_whole = stage_ == 0 || (options_.all_reduce_gradients && stage_ < 3);
  if (is_whole) {
    const std::int64_t count = stage_ == 0 ? unit.unit().count : unit.unit().padded;
    reduction.work = all_reduce(*groups_.dp, unit.gradient.narrow(0, 0, count), "gradients", completion);
  } else if (train_.quantized_gradients && !unit.unit().is_persistent && groups_.dp->size() > 1) {
    reduction.shard = quantized_reduction(unit);
  } else {
    reduction.shard = torch::empty({unit.owned_count()}, unit.gradient.options());
    reduction.work = reduce_scatter(*groups_.dp, unit.gradient, reduction.shard, "gradients", completion);
  }
  reductions_.push_back(std::move(reduction));
}

/// One hop of the quantised reduction: `parts` [n, m, S], part i for rank i of the group -> their sum [m, S],
/// fp32.
torch::Tensor DataParallel::quantized_hop(Communicator& group, const torch::Tensor& parts,
                                          std::string_view tag) {
  const std::int64_t width = parts.size(2);
  const torch::Tensor bytes = quantized(parts.reshape({-1, width}), QuantizedBits::int4);
  const torch::Tensor arrived = torch::empty_like(bytes);
  all_to_all(group, bytes, arrived, tag);
  return dequantized(arrived, width, QuantizedBits::int4).view(parts.sizes()).sum(0);
}

/// qgZ: int4 within blocks of ranks, then int4 between them (arXiv 2306.10209 §4.3).
torch::Tensor DataParallel::quantized_reduction(const UnitStorage& unit) {
  const torch::NoGradGuard no_grad;
  const std::int64_t inner = groups_.block->size();
  const std::int64_t outer = groups_.stride->size();
  torch::Tensor parts = unit.gradient.view({outer, inner, unit.owned_count()});
  if (inner > 1) {
    parts = quantized_hop(*groups_.block, parts.transpose(0, 1), "gradients.qgz.1").unsqueeze(1);
  }
  if (outer > 1) {
    parts = quantized_hop(*groups_.stride, parts.view({outer, 1, unit.owned_count()}), "gradients.qgz.2");
  }
  return parts.reshape({-1});
}

void DataParallel::finish_reductions() {
  for (Reduction& reduction : reductions_) {
    take(reduction);
  }
  reductions_.clear();
}

/// Waits for a reduction and adds its result to the gradients this rank owns.
void DataParallel::take(Reduction& reduction) {
  const torch::NoGradGuard no_grad;
  UnitStorage& unit = *reduction.unit;
  reduction.work.wait();
  if (reduction.shard.defined()) {
    add_in_pieces(unit.owned_gradient, reduction.shard);
  } else if (unit.owned_gradient.data_ptr() != unit.gradient.data_ptr()) {
    const std::int64_t first = stage_ == 0 ? 0 : groups_.dp->rank().value * unit.owned_count();
    add_in_pieces(unit.owned_gradient, unit.gradient.narrow(0, first, unit.owned_count()));
  }
  if (stage_ >= 2) {
    unit.release_gradient();
  }
}

void DataParallel::sum_tied() {
  if (!groups_.ends || groups_.ends->size() < 2) {
    return;
  }
  for (Chunk& chunk : chunks_) {
    for (UnitStorage& unit : chunk.units) {
      if (unit.unit().is_tied_copy && stage_ == 0) {
        const torch::NoGradGuard no_grad;
        const torch::Tensor gradient = unit.gradient.narrow(0, 0, unit.unit().count);
        all_reduce(*groups_.ends, gradient, "tied.gradients", Completion::now);
        if (unit.owned_gradient.data_ptr() != unit.gradient.data_ptr()) {
          unit.owned_gradient.copy_(gradient);
        }
      } else if (unit.unit().is_tied_copy) {
        all_reduce(*groups_.ends, unit.owned_gradient, "tied.gradients", Completion::now);
      }
    }
  }
}

}  // namespace commlens::engine
