#include "commlens/frameworks/commlens/modules.hpp"

namespace commlens::trainer {
namespace {

using enum ModulePart;

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
      work_(out),
      ranks_(job.layout.tp),
      activation_(job.train.micro_batch * job.model.sequence * job.model.hidden),
      sequence_parallel_(job.layout.sequence_parallel && job.layout.tp > 1) {}

void TensorParallelModules::all_reduce(const Rule& rule, std::string_view tag) const {
  if (ranks_ == 1) {
    return;
  }
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

void TensorParallelModules::forward(ModuleRole role) {
  switch (role) {
    case ModuleRole::embedding:
      work_.forward({embedding});
      if (sequence_parallel_) {
        scatter(k_sequence_output, "embedding");
      } else {
        all_reduce(k_output, "embedding");
      }
      return;
    case ModuleRole::block:
      return forward_block();
    case ModuleRole::head:
      return forward_head();
  }
}

void TensorParallelModules::forward_block() {
  const bool is_parallel = job_.model.parallel_residual;
  work_.forward({ln1});
  if (sequence_parallel_) {
    gather(k_sequence_input, "block.qkv");
  }
  work_.forward({qkv, attention, proj});
  if (!is_parallel) {
    if (sequence_parallel_) {
      scatter(k_sequence_output, "block.proj");
    } else {
      all_reduce(k_output, "block.proj");
    }
  }
  work_.forward({ln2});
  if (sequence_parallel_) {
    gather(k_sequence_input, "block.fc1");
  }
  work_.forward({fc1, activation, fc2});
  const char* const tag = is_parallel ? "block.residual" : "block.fc2";
  if (sequence_parallel_) {
    scatter(k_sequence_output, tag);
  } else {
    all_reduce(k_output, tag);
  }
}

void TensorParallelModules::forward_head() {
  work_.forward({final_norm});
  if (sequence_parallel_) {
    gather(k_sequence_input, "head");
  }
  work_.forward({head});
  loss_call("loss.max");
  work_.forward({loss});
  loss_call("loss.target");
  loss_call("loss.sum");
}

void TensorParallelModules::loss_call(const char* tag) const {
  if (ranks_ > 1) {
    const Elements tokens{job_.train.micro_batch * job_.model.sequence};
    out_.all_reduce(out_.groups.tp, tokens, DType::fp32, k_vocabulary_loss, tag);
  }
}

void TensorParallelModules::backward(ModuleRole role) {
  switch (role) {
    case ModuleRole::embedding:
      if (sequence_parallel_) {
        if (job_.model.positions == Positions::learned) {
          replicated_gradients(job_.model.max_positions * job_.model.hidden, "embedding.positions.grad");
        }
        gather(k_sequence_output, "embedding.grad");
      }
      work_.backward({embedding});
      return;
    case ModuleRole::block:
      return backward_block();
    case ModuleRole::head:
      return backward_head();
  }
}

void TensorParallelModules::backward_head() {
  work_.backward({loss, head});
  if (!sequence_parallel_) {
    all_reduce(k_input, "head.grad");
    work_.backward({final_norm});
    return;
  }
  scatter(k_sequence_input, "head.grad");
  work_.backward({final_norm});
  replicated_gradients(2 * job_.model.hidden, "head.norm.grad");
}

void TensorParallelModules::backward_block() {
  const bool is_parallel = job_.model.parallel_residual;
  if (sequence_parallel_) {
    gather(k_sequence_output, is_parallel ? "block.residual.grad" : "block.fc2.grad");
  }
  work_.backward({fc2, activation, fc1});
  if (sequence_parallel_) {
    scatter(k_sequence_input, "block.fc1.grad");
  } else {
    all_reduce(k_input, "block.fc1.grad");
  }
  work_.backward({ln2});
  if (sequence_parallel_ && !is_parallel) {
    gather(k_sequence_output, "block.proj.grad");
  }
  work_.backward({proj});
  work_.recompute_scores();
  work_.backward({attention, qkv});
  if (!sequence_parallel_) {
    all_reduce(k_input, "block.qkv.grad");
    work_.backward({ln1});
    return;
  }
  scatter(k_sequence_input, "block.qkv.grad");
  work_.backward({ln1});
  constexpr std::int64_t replicated_vectors = 6;  // ln1, ln2: weight and bias; biases of proj and fc2
  replicated_gradients(replicated_vectors * job_.model.hidden, "block.shared.grad");
}

}  // namespace commlens::trainer
