#pragma once
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "commlens/frameworks/frameworks.hpp"

namespace commlens::paper {

/// Ways in which the paper's equations fall short of what a framework does with the same job, in the order in
/// which docs/comparing.md applies them. Each changes the size or the number of calls that the equations
/// have; calls of a purpose that the equations do not know are no corrections.
enum class Correction : std::uint8_t {
  // Parameters of a rank (Eqs 1 to 3)
  layer_parameters,    // 13h biases and norm weights per layer instead of 8h
  positions,           // learned positions only where the model has them
  tied_weights,        // tied embeddings counted once (one stage)
  padded_vocabulary,   // V padded for the tensor ranks there are
  replicated_ranks,    // "tensor ranks" of a DeepSpeed case that all hold the whole model
  replicated_tensors,  // norms and row-parallel biases are whole on every tensor rank
  stage_partition,     // the layers each pipeline stage really has (Eq. 5 too)
  // How gradients and parameters are exchanged (Eqs 2 and 3)
  gradient_dtype,     // gradients reduced in another element type than the model's
  sharded_bf16,       // bf16 without ZeRO: the optimizer is sharded all the same and gathers parameters
  all_reduce,         // ZeRO-1 and 2 by all_reduce instead of reduce_scatter
  every_micro_batch,  // ZeRO-2 and 3 reduce, ZeRO-3 gathers, in each micro-batch
  partition_padding,  // tensors padded until the data ranks divide them
  tied_modules,       // ZeRO-3: a tied embedding serves two modules
  // Activations (Eqs 4 and 5)
  whole_boundaries,       // every tensor rank sends the whole activation instead of its share
  no_recompute,           // nothing is recomputed
  parallel_residual,      // attention and MLP share one all_reduce
  first_stage_embedding,  // only the first stage has an embedding to reduce
  unembedding,            // the backward pass of the unembedding reduces too
  activation_dtype,       // activations reduced in fp32
};

/// The equations for the job with some corrections, as calls. `job` is validated and names the framework
/// whose behaviour the corrections follow; without corrections its framework does not matter.
Result<std::vector<StagePrograms>> write_equations(const Job& job, const std::set<Correction>& corrections,
                                                   std::span<const std::int64_t> stages, Plan& plan);

/// What the equations do not speak of, by name.
Result<void> check_equations(const Job& job);

}  // namespace commlens::paper
