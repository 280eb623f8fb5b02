#include "commlens/frameworks/commlens/modules.hpp"

namespace commlens::trainer {
namespace {

const Rule k_output{"commlens.split_output", "docs/training.md#tensor-parallel"};
const Rule k_input{"commlens.split_input_gradient", "docs/training.md#tensor-parallel"};
const Rule k_sequence_output{"commlens.sequence_split_output", "docs/training.md#tensor-parallel"};
const Rule k_sequence_input{"commlens.sequence_split_input", "docs/training.md#tensor-parallel"};
const Rule k_replicated{"commlens.replicated_gradients", "docs/training.md#tensor-parallel"};
const Rule k_vocabulary_loss{"commlens.vocabulary_parallel_loss", "docs/training.md#tensor-parallel"};
const Rule k_kept{"commlens.partitioned_input", "docs/training.md#recomputation"};

}  // namespace

TensorParallelModules::TensorParallelModules(ProgramBuilder& out, const Job& job)
    : out_(out),
      job_(job),
      ranks_(job.layout.tp),
      activation_(job.train.micro_batch * job.model.sequence * job.model.hidden),
      sequence_parallel_(job.layout.sequence_parallel && job.layout.tp > 1) {}

void TensorParallelModules::all_reduce(const Rule& rule, std::string_view tag) const {
  out_.all_reduce(out_.groups.tp, {activation_}, job_.train.dtype, rule, tag);
}

void TensorParallelModules::gather(const Rule& rule, std::string_view tag) const {
  out_.all_gather(out_.groups.tp, {activation_ / ranks_}, job_.train.dtype, rule, tag);
}

void TensorParallelModules::scatter(const Rule& rule, std::string_view tag) const {
  out_.reduce_scatter(out_.groups.tp, {activation_ / ranks_}, job_.train.dtype, rule, tag);
}

void TensorParallelModules::replicated_gradients(std::int64_t count, std::string_view tag) const {
  out_.all_reduce(out_.groups.tp, {count}, job_.train.dtype, k_replicated, tag);
}

void TensorParallelModules::gather_kept_input() const { gather(k_kept, "block.input"); }

void TensorParallelModules::forward(ModuleRole role) const {
  if (ranks_ == 1) {
    return;
  }
  switch (role) {
    case ModuleRole::embedding:
      if (sequence_parallel_) {
        scatter(k_sequence_output, "embedding");
      } else {
        all_reduce(k_output, "embedding");
      }
      return;
    case ModuleRole::block:
      forward_block();
      return;
    case ModuleRole::head:
      if (sequence_parallel_) {
        gather(k_sequence_input, "head");
      }
      loss();
      return;
  }
}

void TensorParallelModules::forward_block() const {
  const bool is_parallel = job_.model.parallel_residual;
  if (!sequence_parallel_) {
    if (!is_parallel) {
      all_reduce(k_output, "block.proj");
    }
    all_reduce(k_output, is_parallel ? "block.residual" : "block.fc2");
    return;
  }
  gather(k_sequence_input, "block.qkv");
  if (!is_parallel) {
    scatter(k_sequence_output, "block.proj");
  }
  gather(k_sequence_input, "block.fc1");
  scatter(k_sequence_output, is_parallel ? "block.residual" : "block.fc2");
}

void TensorParallelModules::loss() const {
  const Elements tokens{job_.train.micro_batch * job_.model.sequence};
  for (const char* const tag : {"loss.max", "loss.target", "loss.sum"}) {
    out_.all_reduce(out_.groups.tp, tokens, DType::fp32, k_vocabulary_loss, tag);
  }
}

void TensorParallelModules::backward(ModuleRole role) const {
  if (ranks_ == 1) {
    return;
  }
  const std::int64_t norm = 2 * job_.model.hidden;
  switch (role) {
    case ModuleRole::embedding:
      if (sequence_parallel_) {
        if (job_.model.positions == Positions::learned) {
          replicated_gradients(job_.model.max_positions * job_.model.hidden, "embedding.positions.grad");
        }
        gather(k_sequence_output, "embedding.grad");
      }
      return;
    case ModuleRole::block:
      backward_block();
      return;
    case ModuleRole::head:
      if (!sequence_parallel_) {
        all_reduce(k_input, "head.grad");
        return;
      }
      scatter(k_sequence_input, "head.grad");
      replicated_gradients(norm, "head.norm.grad");
      return;
  }
}

void TensorParallelModules::backward_block() const {
  const bool is_parallel = job_.model.parallel_residual;
  if (!sequence_parallel_) {
    all_reduce(k_input, "block.fc1.grad");
    all_reduce(k_input, "block.qkv.grad");
    return;
  }
  gather(k_sequence_output, is_parallel ? "block.residual.grad" : "block.fc2.grad");
  scatter(k_sequence_input, "block.fc1.grad");
  if (!is_parallel) {
    gather(k_sequence_output, "block.proj.grad");
  }
  scatter(k_sequence_input, "block.qkv.grad");
  constexpr std::int64_t replicated_vectors = 6;  // ln1, ln2: weight and bias; biases of proj and fc2
  replicated_gradients(replicated_vectors * job_.model.hidden, "block.shared.grad");
}

}  // namespace commlens::trainer
