#include "commlens/frameworks/commlens/units.hpp"

#include <utility>

#include "commlens/frameworks/commlens/options.hpp"

namespace commlens::trainer {
namespace {

const Rule k_all_reduce{"commlens.gradient_all_reduce", "docs/training.md#data-parallel"};
const Rule k_scatter{"commlens.gradient_reduce_scatter", "docs/training.md#data-parallel"};
const Rule k_gather{"commlens.parameter_gather", "docs/training.md#data-parallel"};
const Rule k_updated{"commlens.updated_parameter_gather", "docs/training.md#data-parallel"};
const Rule k_secondary{"commlens.secondary_gather", "docs/training.md#data-parallel"};
const Rule k_quantized_gather{"commlens.quantized_gather", "docs/training.md#data-parallel"};
const Rule k_quantized_reduce{"commlens.quantized_reduction", "docs/training.md#data-parallel"};
const Rule k_tied{"commlens.tied_gradient", "docs/training.md#pipeline"};

}  // namespace

ChunkUnits::ChunkUnits(ProgramBuilder& out, const Job& job, const HeldChunk& chunk)
    : out_(out),
      job_(job),
      stage_(job.train.zero_stage),
      ranks_(job.layout.dp),
      units_(flat_units(job, chunk)),
      of_module_(units_of_modules(chunk, units_)),
      modules_left_(units_.size(), 0),
      is_gathered_(units_.size(), false),
      gathers_(units_.size()) {}

void ChunkUnits::before_forward(std::size_t module) {
  const std::size_t next = module + 1;
  gather_module(module, next < of_module_.size() ? static_cast<std::int64_t>(next) : -1, false);
}

void ChunkUnits::after_forward(std::size_t module, bool stays) {
  if (stays) {
    return;
  }
  for (const std::size_t unit : of_module_[module]) {
    is_gathered_[unit] = false;
  }
}

void ChunkUnits::before_backward(std::size_t module) {
  if (module + 1 == of_module_.size()) {
    modules_left_.assign(units_.size(), 0);
    for (const std::vector<std::size_t>& touched : of_module_) {
      for (const std::size_t unit : touched) {
        ++modules_left_[unit];
      }
    }
  }
  gather_module(module, static_cast<std::int64_t>(module) - 1, true);
}

void ChunkUnits::after_backward(std::size_t module, bool is_last_micro_batch) {
  for (const std::size_t unit : of_module_[module]) {
    is_gathered_[unit] = false;
    const bool is_done = --modules_left_[unit] == 0 && (stage_ == 2 || is_last_micro_batch);
    if (stage_ == 3 || is_done) {
      reduce(units_[unit]);
    }
  }
}

void ChunkUnits::end_backward() {
  for (const FlatUnit& unit : units_) {
    if (unit.is_persistent) {
      reduce(unit);
    }
  }
}

void ChunkUnits::gather_module(std::size_t module, std::int64_t next, bool is_for_backward) {
  if (stage_ != 3 || ranks_ == 1) {
    return;
  }
  for (const std::size_t unit : of_module_[module]) {
    gather(unit, is_for_backward);
  }
  if (next >= 0) {
    for (const std::size_t unit : of_module_[static_cast<std::size_t>(next)]) {
      gather(unit, is_for_backward);
    }
  }
  for (const std::size_t unit : of_module_[module]) {
    if (gathers_[unit]) {
      out_.wait_for(*std::exchange(gathers_[unit], std::nullopt));
    }
  }
}

void ChunkUnits::gather(std::size_t index, bool is_for_backward) {
  if (is_gathered_[index]) {
    return;
  }
  is_gathered_[index] = true;
  const FlatUnit& unit = units_[index];
  out_.set_waiting(Waiting::later);
  if (is_for_backward && job_.train.hpz > 1) {
    out_.all_gather(block(), {unit.padded / job_.train.hpz}, job_.train.dtype, k_secondary, unit.tag);
  } else if (job_.train.quantized_weights) {
    out_.all_gather(out_.groups.dp, {int8_bytes(unit.padded / ranks_)}, DType::uint8, k_quantized_gather,
                    unit.tag);
  } else {
    out_.all_gather(out_.groups.dp, {unit.padded / ranks_}, job_.train.dtype, k_gather, unit.tag);
  }
  gathers_[index] = out_.last_call();
  out_.set_waiting(Waiting::at_once);
}

void ChunkUnits::reduce(const FlatUnit& unit) {
  if (ranks_ == 1) {
    return;
  }
  const bool by_all_reduce = stage_ == 0 || (options(job_).all_reduce_gradients && stage_ < 3);
  if (!by_all_reduce && job_.train.quantized_gradients && !unit.is_persistent) {
    return reduce_quantized(unit);
  }
  out_.set_waiting(Waiting::later);
  if (by_all_reduce) {
    out_.all_reduce(out_.groups.dp, {stage_ == 0 ? unit.count : unit.padded}, job_.train.dtype, k_all_reduce,
                    unit.tag);
  } else {
    out_.reduce_scatter(out_.groups.dp, {unit.padded / ranks_}, job_.train.dtype, k_scatter, unit.tag);
  }
  reductions_.push_back(out_.last_call());
  out_.set_waiting(Waiting::at_once);
}

void ChunkUnits::finish_reductions() {
  for (const StepIndex call : std::exchange(reductions_, {})) {
    out_.wait_for(call);
  }
}

std::int64_t ChunkUnits::updated() const {
  std::int64_t count = 0;
  for (const FlatUnit& unit : units_) {
    count += stage_ == 0 ? unit.count : unit.padded / ranks_;
  }
  return count;
}

void ChunkUnits::reduce_quantized(const FlatUnit& unit) const {
  const std::int64_t node = job_.train.hpz > 1 ? job_.train.hpz : ranks_;
  const std::int64_t nodes = ranks_ / node;
  const std::int64_t part = nodes * int4_bytes(unit.padded / ranks_);  // of one rank of the node
  out_.all_to_all(block(), {node * part}, DType::uint8, k_quantized_reduce, unit.tag);
  if (nodes > 1) {
    out_.all_to_all(stride(), {part}, DType::uint8, k_quantized_reduce, unit.tag);
  }
}

GroupId ChunkUnits::block() const {
  const std::int64_t node = job_.train.hpz;
  if (node == 1 || node == ranks_) {
    return out_.groups.dp;
  }
  return out_.groups.over(Axis::dp, {{Axis::dp, {Span::Shape::block, node}}});
}

GroupId ChunkUnits::stride() const {
  return out_.groups.over(Axis::dp, {{Axis::dp, {Span::Shape::stride, job_.train.hpz}}});
}

void ChunkUnits::sum_tied_gradient() const {
  for (const FlatUnit& unit : units_) {
    if (!unit.is_tied_copy) {
      continue;
    }
    if (stage_ == 0) {
      out_.all_reduce(out_.groups.ends, {unit.count}, job_.train.dtype, k_tied, unit.tag);
    } else {
      out_.all_reduce(out_.groups.ends, {unit.padded / ranks_}, DType::fp32, k_tied, unit.tag);
    }
  }
}

void ChunkUnits::share_updated() const {
  if (stage_ == 0 || ranks_ == 1) {
    return;
  }
  for (const FlatUnit& unit : units_) {
    if (stage_ < 3 || unit.is_persistent) {
      out_.all_gather(out_.groups.dp, {unit.padded / ranks_}, job_.train.dtype, k_updated, unit.tag);
    }
  }
}

}  // namespace commlens::trainer
