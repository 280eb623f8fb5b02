#pragma once
#include <cstdint>

#include "commlens/base/units.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// Bytes one rank holds at its fullest moment; they add up. Fragmentation, workspaces of libraries and the
/// runtime's own memory are not in it.
struct MemoryEstimate {
  /// Model states of mixed precision with Adam: parameters and gradients in the model dtype, 12 bytes of fp32
  /// master weights and moments per parameter (16 in all for fp32 training: 4+4+8). Source: ZeRO, arXiv
  /// 1910.02054 §3. Our trainer adds gradients up in fp32, 4 bytes more.
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer;
  /// Of the layers, kept from forward to backward, of every micro-batch in flight. Source: Korthikanti et
  /// al., arXiv 2205.05198, eqs 1-6; without the scores where attention is fused.
  Bytes activations;
  /// The head's input and logits, with the logits' gradient. Frameworks compute the loss of mixed precision
  /// in fp32, so that the scores are stored twice (arXiv 2205.05198 §4.3 counts 4 bytes a score, and the
  /// gradient comes later); our trainer computes it in place.
  Bytes logits;
  /// Parameters gathered by ZeRO-3, buckets of reductions and what they result in.
  Bytes buffers;
  /// What the module at work needs besides: a layer computed again, gradients that have not been added up.
  Bytes working;

  Bytes states() const { return parameters + gradients + optimizer; }
  Bytes total() const { return states() + activations + logits + buffers + working; }
};

/// Parameters of one rank, those of experts apart: they are shared over other ranks.
struct Held {
  std::int64_t dense = 0;
  std::int64_t expert = 0;
};

/// What one rank of a pipeline stage holds, in elements.
struct HeldStage {
  std::int64_t index = 0;
  bool is_last = false;
  std::int64_t layers = 0;
  Held layer;               // one of them, experts as this rank has them
  std::int64_t table = 0;   // the token table, or the head's
  std::int64_t tokens = 0;  // of a micro-batch
  Held all;
  double in_flight = 0;  // micro-batches whose activations it keeps; 0: as the job's schedule has it
};

/// Of a validated job. Layers are spread evenly, the first stages one more.
HeldStage held_by_stage(const Job& job, std::int64_t stage);

/// Bytes of `bytes_each` per parameter, shared over the data-parallel ranks if `is_sharded` (experts: over
/// those with the same ones).
Bytes states(const Held& held, std::int64_t bytes_each, const ParallelLayout& layout, bool is_sharded);

/// Parameters, gradients of `gradient_bytes` each, and optimizer states at the job's ZeRO stage.
MemoryEstimate model_states(const Job& job, const HeldStage& stage, std::int64_t gradient_bytes);

/// Layers of experts among the layers of a model.
struct ExpertLayers {
  double share = 0;               // of all layers
  std::int64_t shared_width = 0;  // of the experts that every token passes, together
};

/// What the mean layer of a model keeps on one rank by what keeps it, bytes a token of a micro-batch.
struct KeptActivations {
  double norm_inputs = 0;
  double norm_outputs = 0;  // inputs of the projections behind them
  double masks = 0;         // of both dropouts
  double latents = 0;       // compressed queries, keys and values of latent attention
  double queries_keys_values = 0;
  double attention_output = 0;
  double scores = 0;
  double mlp = 0;
  double expert_inputs = 0;
  double experts = 0;
  double shared_experts = 0;

  void drop_scores() { scores = 0; }
  double per_token() const {
    return norm_inputs + norm_outputs + masks + latents + queries_keys_values + attention_output + scores +
           mlp + expert_inputs + experts + shared_experts;
  }
};

/// What one layer keeps of a micro-batch on one rank.
struct LayerActivations {
  double per_token = 0;
  double fixed = 0;  // whatever the size of the micro-batch
  Bytes of(std::int64_t tokens) const;
};

/// Those of all layers and micro-batches of a stage at its fullest moment.
Bytes activations_in_flight(const Job& job, const HeldStage& stage, const LayerActivations& layer);
/// Micro-batches a stage has between forward and backward at its fullest moment.
double micro_batches_in_flight(const Job& job, const HeldStage& stage);

/// A moment of a step and what it needs beside the states.
struct Moment {
  Bytes activations;
  Bytes logits;
  Bytes buffers;
  Bytes working;
  Bytes total() const { return activations + logits + buffers + working; }
};
Moment fuller(const Moment& a, const Moment& b);
/// The states with what the moment needs.
MemoryEstimate with_moment(MemoryEstimate states, const Moment& moment);

/// Whole bytes, rounded up.
Bytes bytes_of(double count);

}  // namespace commlens
