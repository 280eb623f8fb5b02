#include "commlens/compare/causes.hpp"

#include <algorithm>
#include <array>

namespace commlens {
namespace {

struct CauseText {
  std::string_view name;
  std::string_view title;
  std::string_view sentence;
};

/// Every cause: its name, its title, and why it makes a difference.
constexpr std::array k_causes = {
    // What Eq. 1 counts otherwise
    CauseText{"layer_parameters", "biases, norms miscounted by Eq. 1",
              "Eq. 1 has 8h biases and norm weights in a layer; a GPT layer has 13h: 9h of biases (qkv 3h, "
              "projection h, MLP 4h and h) and 4h of two LayerNorms."},
    CauseText{
        "position_embeddings", "positions that Eq. 1 assumes",
        "Eq. 1 always adds a table of s x h learned positions; rotary positions have no parameters, and "
        "a learned table has as many rows as the model has positions."},
    CauseText{"tied_weights", "tied embeddings counted twice",
              "Eq. 1 counts the embedding and the unembedding; tied, they are one matrix."},
    CauseText{
        "padded_vocabulary", "padded vocabulary",
        "The vocabulary is padded so that the tensor ranks divide it; the paper uses one size for all."},
    CauseText{"replicated_ranks", "tensor ranks that are copies",
              "The model-parallel ranks of this case all hold the whole model: no parameter is divided, no "
              "activation reduced."},
    CauseText{
        "replicated_tensors", "tensors that are not split",
        "Norms, and biases of row-parallel layers, are whole on every tensor rank; the equations divide "
        "all parameters by t."},
    CauseText{"stage_partition", "layers spread unevenly over stages",
              "The equations give every stage the p-th part of the layers and parameters; the framework cuts "
              "between whole layers, and the embedding and the unembedding lie on the first and last stage."},
    // How gradients and parameters travel
    CauseText{"gradient_dtype", "gradients in another element type",
              "Gradients are reduced in another element type than the model's."},
    CauseText{"bf16_optimizer", "optimizer sharded under bf16",
              "With bf16 the optimizer states are sharded in stage 0 too, so that the updated parameters are "
              "gathered in every step."},
    CauseText{
        "all_reduce_for_reduce_scatter", "all_reduce, not reduce_scatter",
        "ZeRO-1 and ZeRO-2 reduce whole gradients onto every rank with all_reduce, whatever the setting "
        "reduce_scatter says: twice the bytes of a reduce_scatter on the wire."},
    CauseText{"every_micro_batch", "once per micro-batch",
              "ZeRO-2, ZeRO-3 and DDP without no_sync reduce gradients, and ZeRO-3 gathers parameters, in "
              "every micro-batch; the "
              "equations have one micro-batch."},
    CauseText{"partition_padding", "padding to the partition size",
              "Flat tensors are padded until the data ranks divide them: ZeRO-1 and 2 at the end of each "
              "parameter group, ZeRO-3 every parameter on its own."},
    CauseText{"tied_modules", "tied embedding for either module",
              "Under ZeRO-3 a tied embedding is gathered once for the embedding and once for the head; our "
              "trainer reduces its gradient twice, too."},
    CauseText{"gradient_buckets", "gradients sent in buckets",
              "The equations count one call; gradients go in buckets of a limited size."},
    CauseText{"bucket_cut_at_partition", "buckets cut at a partition border",
              "A parameter larger than the bucket that lies across the border of two ranks' partitions is "
              "reduced in pieces."},
    CauseText{
        "reduce_to_owner", "gradients reduced to their owner",
        "use_multi_rank_bucket_allreduce is off: each slice goes to the rank that keeps it, by reduce."},
    CauseText{
        "whole_buffer", "reduce_scatter: false",
        "With reduce_scatter off, ZeRO-1 and 2 all_reduce the whole preallocated bucket at every flush, "
        "whatever its fill, and ZeRO-3 all_reduces its buckets without padding."},
    CauseText{
        "parameters_kept", "parameters kept for backward",
        "Eq. 3 gathers every parameter twice; what is used again within the reuse distance, and what no "
        "hook releases, stays gathered until the optimizer step."},
    CauseText{"persistent_parameters", "persistent parameters, one by one",
              "Parameters up to the persistence threshold stay gathered; each is gathered once, in a call of "
              "its own, after every optimizer step."},
    CauseText{"gathered_to_recompute", "parameters gathered to recompute",
              "A layer whose activations are recomputed is a module that runs once more: what nothing keeps "
              "is gathered "
              "a third time."},
    CauseText{"secondary_partition", "gathers within the node (hpZ)",
              "A secondary copy of the shards lies within each node; backward gathers from it."},
    CauseText{"quantized", "quantised collectives (ZeRO++)",
              "Parameters are gathered in int8, gradients exchanged in int4, with their scales."},
    CauseText{
        "separate_calls", "several calls for one term",
        "The same bytes as the equation's term, in another number of calls: one for each parameter group, "
        "module or prefetch."},
    CauseText{"one_rank_gradients", "gradient reduction on one rank",
              "With one data rank there is nothing to reduce; the call is issued all the same, on a group of "
              "one, and loggers count it. It moves nothing."},
    CauseText{"one_rank_parameters", "parameter gather on one rank",
              "With one data rank there is nothing to gather; the call is issued all the same, on a group of "
              "one. It moves nothing."},
    CauseText{"tied_gradients", "gradient of tied embeddings",
              "The first and the last stage share one embedding and sum its gradient."},
    CauseText{
        "replicated_gradients", "gradients of unsplit tensors",
        "Under sequence parallelism norms and biases see a part of the tokens only; their gradients are "
        "summed over the tensor ranks."},
    // Activations
    CauseText{
        "attention_mask", "attention mask in every send",
        "The attention mask, s x s values in fp16, travels with every activation that a stage sends, and "
        "never back with the gradients."},
    CauseText{"partition_meta", "meta data of partitioned tensors",
              "Every partitioned activation and gradient is preceded by its shape and offsets as int64."},
    CauseText{
        "activation_shapes", "shapes before the first activation",
        "Types and shapes are exchanged once per pair of stages, before the first activation, or before "
        "every one where sequence lengths vary."},
    CauseText{
        "whole_boundaries", "whole activations from every rank",
        "Eq. 4 counts an activation once per boundary; here each of the t tensor ranks sends all of it."},
    CauseText{
        "pipeline_gathers", "stage inputs and outputs gathered",
        "With partitioned pipelines each tensor rank sends its share; the stage gathers input, output and "
        "gradient over its tensor ranks."},
    CauseText{"partitioned_activations", "partitioned activations gathered",
              "Stored layer inputs are split over the tensor ranks and gathered before each layer is "
              "recomputed; no equation has them."},
    CauseText{"no_recompute", "nothing is recomputed",
              "Eq. 5 counts two all_reduces per layer for recomputation."},
    CauseText{"parallel_residual", "parallel residual",
              "With a parallel residual their outputs are summed before one all_reduce; Eq. 5 counts two, "
              "forward and recomputed."},
    CauseText{"first_stage_embedding", "embedding on the first stage only",
              "Eq. 5 adds one all_reduce for the embedding to every stage; only the first stage has one."},
    CauseText{"unembedding_all_reduce", "unembedding all_reduce",
              "The backward pass of the unembedding reduces its input gradient over the tensor ranks; Eq. 5 "
              "has no term for it."},
    CauseText{"fp32_activations", "activations reduced in fp32",
              "fp32_allreduce converts bf16 activations before the all_reduce: twice the bytes."},
    CauseText{"sequence_parallel", "sequence parallelism",
              "Activations are gathered and scattered over the tensor ranks instead of reduced."},
    CauseText{"experts", "mixture of experts",
              "Tokens travel to the ranks that hold their experts and back."},
    CauseText{"cross_entropy", "cross entropy, split vocabulary",
              "Each micro-batch takes three all_reduces of one fp32 value per token (maximum, target, sum); "
              "they are issued on one tensor rank too."},
    // Small calls of a step
    CauseText{
        "overflow_flags", "overflow flags",
        "fp16 training asks all ranks whether a gradient overflowed, and so does bf16 in newer releases."},
    CauseText{"gradient_norms", "gradient norms",
              "The norm of the gradients is summed, per parameter group or sub-group, over data and model "
              "ranks."},
    CauseText{"batch_broadcasts", "batch broadcasts",
              "The first tensor rank sends every micro-batch, sizes and tokens, to the others; the calls are "
              "issued on one tensor rank too."},
    CauseText{"loss", "loss", "The loss is averaged over data ranks and sent to the other stages."},
    CauseText{"start", "start of training",
              "Before the first iteration parameters are broadcast or gathered and settings are agreed on."},
    CauseText{"trace_check", "ZeRO-3 checks its trace",
              "Rank 0 broadcasts the order in which it saw modules and parameters: at the end of the first "
              "backward pass, in newer releases at the start of forward passes until it is known."},
    CauseText{"bucket_ids", "ids of a bucket's parameters",
              "enable_sanity_checks: before a bucket is reduced its parameters are compared over the ranks."},
    CauseText{
        "all_reduce_fetch", "gathers made of all_reduces",
        "stage3_use_all_reduce_for_fetch_params: several parameters are fetched by an all_reduce of slices "
        "and zeros, twice the bytes of a gather on the wire."},
    CauseText{
        "gathered_parameters", "parameters gathered by the script",
        "GatheredParameters gathers whole parameters for the script, and sends what it changed to all."},
    CauseText{"checkpoint_tag", "tag of a checkpoint",
              "Before a checkpoint is written the ranks compare the hash of its tag."},
    CauseText{
        "auto_tp", "sums over tensor ranks (AutoTP)",
        "Outputs of row-wise linears are summed over the tensor ranks, and the gradient of the input of "
        "each column-wise one on its own."},
    CauseText{
        "first_inputs", "first inputs compared",
        "Before the first forward pass AutoTP sends the inputs of the first tensor rank to the others, which "
        "compare them with theirs."},
    CauseText{
        "ulysses", "attention over heads (Ulysses)",
        "Each rank has a part of the sequence; for attention queries, keys and values are exchanged for a "
        "part of the heads, and what attention makes of them goes back."},
    CauseText{
        "sequence_loader", "samples of all sequence ranks",
        "The data loader gathers the samples of the ranks that share a sequence, for as many micro-batches."},
    // PyTorch's parallel modules
    CauseText{
        "buffers", "buffers of modules",
        "DDP broadcasts what a module keeps beside its parameters, such as running means, from its first "
        "rank before each forward pass that follows a reduction."},
    CauseText{"unused_parameters", "which parameters were used",
              "The ranks agree on the parameters that took part in the forward pass: one number each."},
    CauseText{"uneven_inputs", "ranks with fewer inputs",
              "Inside join() the ranks count who still has inputs and whether gradients will be reduced; in "
              "the end they get the states of the last one."},
    CauseText{"units", "one call for each FSDP group",
              "Every call of fully_shard makes one group, whose parameters are gathered, and whose gradients "
              "reduced, in one call, each padded in its first dimension until the ranks divide it."},
    CauseText{"reshard_after_forward", "gathered again from a part",
              "After the forward pass the parameters stay sharded over a part of the ranks, which gather "
              "them for the backward pass."},
    CauseText{"hybrid_sharding", "sums over replicas of a shard",
              "With several replicas each rank sums its reduced shard over those that hold the same one."},
    CauseText{"partial_gradients", "gradients that are partial sums",
              "With sequence parallelism a norm's gradient on one tensor rank is of its tokens alone; FSDP "
              "sums it before it is scattered, without FSDP every use of it does."},
    CauseText{
        "tensor_plan", "sums that the plan asks for",
        "Without sequence parallelism outputs of row-wise modules are summed over the tensor ranks, and "
        "the gradient of each input of a column-wise module on its own."},
    CauseText{"loss_parallel", "logits, or their parallel loss",
              "Logits are gathered over the tensor ranks, or, with loss_parallel, three numbers a token are "
              "reduced instead."},
    CauseText{"context_parallel", "keys and values over the ring",
              "Attention over a split sequence gathers or rotates keys and values, and rotates their "
              "gradients in fp32."},
    CauseText{"schedule", "messages of the schedule",
              "Each stage sends the activations of a micro-batch to the next one and their gradients back."},
    CauseText{"first_step", "first step of a pipeline",
              "Before the first micro-batch neighbours are connected and, unless shapes are given, learn "
              "them from a pass of their own."},
    // The Trainer of transformers
    CauseText{
        "item_counts", "tokens counted over ranks",
        "Every rank tells the others how many of its tokens have labels, so that the loss is a mean over "
        "all of them, and, where asked to, how many tokens it has read."},
    CauseText{"logs", "losses and operations logged",
              "For the log ranks gather or reduce losses, norms, times, metrics and counts of operations, "
              "after each step or once in a number of steps."},
    CauseText{"loading", "weights from rank 0",
              "With cpu_ram_efficient_loading rank 0 alone reads the weights: it broadcasts each one whole, "
              "and then scatters it."},
    CauseText{"checkpoints", "states gathered for a checkpoint",
              "A checkpoint of whole states gathers every sharded parameter for each file it is in, and both "
              "moments of the optimizer."},
    // torchtitan
    CauseText{
        "drawn_weights", "weights drawn as shards",
        "trunc_normal_ draws again what lies outside its bounds; whether anything does is known once the "
        "mask of all shards is gathered."},
    CauseText{"seed", "seed of rank 0", "Without debug.seed rank 0 sends its seed to all others."},
    CauseText{"valid_tokens", "tokens that count",
              "Before the micro-batches of a step the data ranks add up the tokens that are not padding, by "
              "which the loss is divided."},
    CauseText{"tensor_modules", "sums over tensor ranks",
              "Outputs of row-wise modules and gradients of the inputs of column-wise ones are sums over the "
              "tensor ranks: each is reduced whole, or, with sequence parallelism, scattered."},
    CauseText{"whole_keys", "keys and values gathered",
              "A context rank gathers the keys and values of the whole sequence; their gradients are reduced "
              "and scattered in the backward pass."},
    CauseText{
        "expert_inputs", "gradients of tokens gathered",
        "Without sequence parallelism each tensor rank sends its part of the tokens to the experts; the "
        "gradients of tokens and of their scores are gathered again."},
    CauseText{"expert_balance", "balance of experts",
              "The tokens of each expert are summed over the ranks, once per step; they move the bias that "
              "the router chooses by (load_balance_coeff)."},
    CauseText{"log", "numbers of the log",
              "Loss, largest loss and tokens are reduced in the first step and in every one that is logged "
              "(metrics.log_freq)."},
    CauseText{"timeouts", "barrier after the first step",
              "The timeouts of all groups are changed after the first step, behind a barrier."},
    CauseText{"checkpoint", "saving a checkpoint",
              "Weights that are saved apart are gathered; then the ranks agree, by pickled objects, on who "
              "writes what."},
    // Calls of the equations' purposes, when calls rather than volumes are compared
    CauseText{"gradients", "gradients", "Reductions of gradients over the data ranks."},
    CauseText{"parameters", "parameters", "Gathers of parameters from the data ranks that hold them."},
    CauseText{"boundaries", "activations between stages", "Activations and their gradients between stages."},
    CauseText{"tensor_parallel", "activations over tensor ranks",
              "Activations and their gradients, summed over tensor ranks."},
};

}  // namespace

Cause cause_named(std::string_view name) {
  const auto* const found = std::find_if(k_causes.begin(), k_causes.end(),
                                         [&](const CauseText& text) { return text.name == name; });
  if (found == k_causes.end()) {
    return {std::string(name), std::string(name), "", ""};
  }
  return {std::string(found->name), std::string(found->title), std::string(found->sentence), ""};
}

std::string_view cause_of(Term term) {
  switch (term) {
    case Term::gradients:
      return "gradients";
    case Term::parameters:
      return "parameters";
    case Term::boundary:
      return "boundaries";
    case Term::tensor:
      return "tensor_parallel";
    case Term::none:
      return "";
  }
  return "";
}

std::vector<std::string_view> cause_names() {
  std::vector<std::string_view> names;
  for (const CauseText& text : k_causes) {
    names.push_back(text.name);
  }
  return names;
}

}  // namespace commlens
