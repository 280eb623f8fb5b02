#include "commlens/frameworks/neox/tensor.hpp"

#include <array>

#include "commlens/frameworks/deepspeed/source.hpp"
#include "commlens/frameworks/neox/behaviour.hpp"
#include "commlens/frameworks/neox/options.hpp"

namespace commlens::neox {
namespace {

using enum ModulePart;

const Rule k_sizes{"neox.broadcast_batch_sizes",
                   k_source<"megatron/mpu/data.py:52 _build_key_size_numel_dictionaries">};
const Rule k_batch{"neox.broadcast_batch", k_source<"megatron/mpu/data.py:107 broadcast_data">};
const Rule k_forward{"neox.tensor_parallel_forward_all_reduce",
                     k_source<"megatron/mpu/mappings.py:42 _reduce">};
const Rule k_backward{"neox.tensor_parallel_backward_all_reduce",
                      k_source<"megatron/mpu/layers.py:555 ColumnParallelLinear">};
const Rule k_unembedding{"neox.unembedding_backward_all_reduce",
                         k_source<"megatron/mpu/layers.py:555 ColumnParallelLinear">};
const Rule k_loss_max{"neox.cross_entropy_max", k_source<"megatron/mpu/cross_entropy.py:33">};
const Rule k_loss_target{"neox.cross_entropy_target", k_source<"megatron/mpu/cross_entropy.py:68">};
const Rule k_loss_sum{"neox.cross_entropy_sum", k_source<"megatron/mpu/cross_entropy.py:78">};
const Rule k_checkpoint{"checkpoint.gather_partitioned_activations",
                        deepspeed::k_source<"runtime/activation_checkpointing/checkpointing.py:294 "
                                            "gather_partitioned_activations">};
const Rule k_gather{"neox.sequence_parallel_gather",
                    k_sequence_parallel_source<"megatron/mpu/mappings.py:152">};
const Rule k_scatter{"neox.sequence_parallel_reduce_scatter",
                     k_sequence_parallel_source<"megatron/mpu/mappings.py:116">};
const Rule k_norm_gradient{"neox.sequence_parallel_norm_gradient",
                           k_sequence_parallel_source<"megatron/model/utils.py:373">};

constexpr std::int64_t k_size_entries = 4;  // one key, up to MAX_DATA_DIM - 1 dimensions, int64

/// What these rules mean where calls are compared. The cause of a term is why it comes in another number of
/// calls.
constexpr std::array k_tensor_causes = {
    RuleRow{"neox.broadcast_batch_sizes", {Term::none, "batch_broadcasts"}},
    RuleRow{"neox.broadcast_batch", {Term::none, "batch_broadcasts"}},
    RuleRow{"neox.tensor_parallel_forward_all_reduce", {Term::tensor, "separate_calls"}},
    RuleRow{"neox.tensor_parallel_backward_all_reduce", {Term::tensor, "separate_calls"}},
    RuleRow{"neox.unembedding_backward_all_reduce", {Term::tensor, "unembedding_all_reduce"}},
    RuleRow{"neox.cross_entropy_max", {Term::none, "cross_entropy"}},
    RuleRow{"neox.cross_entropy_target", {Term::none, "cross_entropy"}},
    RuleRow{"neox.cross_entropy_sum", {Term::none, "cross_entropy"}},
    RuleRow{"neox.sequence_parallel_gather", {Term::none, "sequence_parallel"}},
    RuleRow{"neox.sequence_parallel_reduce_scatter", {Term::none, "sequence_parallel"}},
    RuleRow{"neox.sequence_parallel_norm_gradient", {Term::none, "replicated_gradients"}},
};

bool splits_sequence(const Job& job) { return job.layout.sequence_parallel && job.layout.tp > 1; }

std::int64_t split_activation(const Job& job) {
  return job.train.micro_batch * job.model.sequence * job.model.hidden / job.layout.tp;
}

/// [b, s/t, h] -> [b, s, h]
void gather(ProgramBuilder& out, std::string_view tag) {
  out.all_gather(out.groups.tp, {split_activation(out.job())}, out.job().train.dtype, k_gather, tag);
}

/// [b, s, h] -> [b, s/t, h]
void reduce_scatter(ProgramBuilder& out, std::string_view tag) {
  out.reduce_scatter(out.groups.tp, {split_activation(out.job())}, out.job().train.dtype, k_scatter, tag);
}

void norm_gradients(ProgramBuilder& out, int parameters) {
  const Job& job = out.job();
  for (int i = 0; i < parameters; ++i) {
    out.all_reduce(out.groups.tp, {job.model.hidden}, job.train.dtype, k_norm_gradient, "norm gradient");
  }
}

void backward_layer_of_split_sequence(ProgramBuilder& out, ModelWork& work) {
  const bool parallel_residual = out.job().model.parallel_residual;
  gather(out, parallel_residual ? "attention and mlp" : "mlp.dense_4h_to_h");
  work.backward({fc2, activation, fc1});
  reduce_scatter(out, "mlp.dense_h_to_4h");
  work.backward({ln2});
  norm_gradients(out, 2);
  if (!parallel_residual) {
    gather(out, "attention.dense");
  }
  work.backward({proj});
  work.recompute_scores();
  work.backward({attention, qkv});
  reduce_scatter(out, "attention.query_key_value");
  work.backward({ln1});
  norm_gradients(out, 2);
}

}  // namespace

std::span<const RuleRow> tensor_causes() { return k_tensor_causes; }

TensorParallelStage::TensorParallelStage(ProgramBuilder& out, const Job& job, Part part)
    : out_(out),
      job_(job),
      work_(out),
      part_(part),
      ranks_(job.layout.tp),
      activation_(job.train.micro_batch * job.model.sequence * job.model.hidden),
      reduce_dtype_(options(job).fp32_allreduce && job.train.dtype == DType::bf16 ? DType::fp32
                                                                                  : job.train.dtype) {}

void TensorParallelStage::load() const {
  out_.broadcast({out_.groups.tp, GroupRank{0}}, {k_size_entries}, DType::int64, k_sizes, "batch sizes");
  out_.broadcast({out_.groups.tp, GroupRank{0}}, {job_.train.micro_batch * (job_.model.sequence + 1)},
                 DType::int64, k_batch, "tokens");
}

void TensorParallelStage::all_reduce(std::string_view tag, bool is_forward) const {
  if (ranks_ > 1) {
    out_.all_reduce(out_.groups.tp, {activation_}, reduce_dtype_, is_forward ? k_forward : k_backward, tag);
  }
}

void TensorParallelStage::forward_layer() {
  const bool parallel_residual = job_.model.parallel_residual;
  work_.forward({ln1});
  if (splits_sequence(job_)) {
    gather(out_, "attention.query_key_value");
  }
  work_.forward({qkv, attention, proj});
  if (!parallel_residual) {
    if (splits_sequence(job_)) {
      reduce_scatter(out_, "attention.dense");
    } else {
      all_reduce("attention.dense", true);
    }
  }
  work_.forward({ln2});
  if (splits_sequence(job_)) {
    gather(out_, "mlp.dense_h_to_4h");
  }
  work_.forward({fc1, activation, fc2});
  const char* const tag = parallel_residual ? "attention and mlp" : "mlp.dense_4h_to_h";
  if (splits_sequence(job_)) {
    reduce_scatter(out_, tag);
  } else {
    all_reduce(tag, true);
  }
}

void TensorParallelStage::forward(std::int32_t micro_batch) {
  out_.set_phase(Phase::forward, micro_batch);
  if (part_.is_first) {
    work_.forward({embedding});
    all_reduce("word_embeddings", true);
  }
  for (std::int64_t layer = 0; layer < part_.layers; ++layer) {
    forward_layer();
  }
  if (part_.has_final_norm) {
    work_.forward({final_norm});
  }
  if (!part_.is_last) {
    return;
  }
  if (splits_sequence(job_)) {
    gather(out_, "final_linear");
  }
  work_.forward({head});
  const DType loss_dtype = options(job_).fp16_lm_cross_entropy ? job_.train.dtype : DType::fp32;
  const Elements tokens{job_.train.micro_batch * job_.model.sequence};
  out_.all_reduce(out_.groups.tp, tokens, loss_dtype, k_loss_max, "cross entropy");
  work_.forward({loss});
  out_.all_reduce(out_.groups.tp, tokens, loss_dtype, k_loss_target, "cross entropy");
  out_.all_reduce(out_.groups.tp, tokens, loss_dtype, k_loss_sum, "cross entropy");
}

void TensorParallelStage::backward_layer() {
  if (splits_sequence(job_)) {
    return backward_layer_of_split_sequence(out_, work_);
  }
  work_.backward({fc2, activation, fc1});
  all_reduce("mlp.dense_h_to_4h", false);
  work_.backward({ln2, proj});
  work_.recompute_scores();
  work_.backward({attention, qkv});
  all_reduce("attention.query_key_value", false);
  work_.backward({ln1});
}

void TensorParallelStage::backward_head() {
  if (part_.is_last) {
    work_.backward({loss, head});
  }
  if (part_.is_last && ranks_ > 1) {
    if (splits_sequence(job_)) {
      reduce_scatter(out_, "final_linear");
    } else {
      out_.all_reduce(out_.groups.tp, {activation_}, reduce_dtype_, k_unembedding, "final_linear");
    }
  }
  if (part_.has_final_norm) {
    work_.backward({final_norm});
  }
  if (part_.is_last && splits_sequence(job_)) {
    norm_gradients(out_, 4);  // the final norm's two parameters are hooked twice
  }
}

void TensorParallelStage::start_backward(std::int32_t micro_batch) {
  out_.set_phase(Phase::backward, micro_batch);
  backward_head();
  next_layer_ = part_.layers - 1;
  is_backward_ = true;
}

void TensorParallelStage::backward_one_layer(std::int64_t layer) {
  const bool checkpoints = job_.train.recompute == Recompute::full;
  const bool gathers_checkpoint = checkpoints && job_.train.partition_activations && ranks_ > 1;
  const std::int64_t input = splits_sequence(job_) ? activation_ / ranks_ : activation_;
  const bool ends_segment = (part_.layers - 1 - layer) % options(job_).checkpoint_num_layers == 0;
  if (checkpoints) {
    out_.set_phase(Phase::recompute, out_.micro_batch());
    if (gathers_checkpoint && ends_segment) {
      out_.all_gather(out_.groups.tp, {input / ranks_}, job_.train.dtype, k_checkpoint,
                      "checkpointed layer input");
    }
    forward_layer();
    out_.set_phase(Phase::backward, out_.micro_batch());
  }
  backward_layer();
}

void TensorParallelStage::backward_until(std::int64_t layer) {
  for (; is_backward_ && layer >= 0 && next_layer_ >= layer; --next_layer_) {
    backward_one_layer(next_layer_);
  }
}

void TensorParallelStage::end_backward() {
  if (!is_backward_) {
    return;
  }
  backward_until(0);
  is_backward_ = false;
  if (part_.is_first && splits_sequence(job_)) {
    gather(out_, "word_embeddings");
  }
  if (part_.is_first) {
    work_.backward({embedding});
  }
}

}  // namespace commlens::neox
