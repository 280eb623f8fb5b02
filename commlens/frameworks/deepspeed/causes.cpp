// What the rules of DeepSpeed mean where its calls are compared. The cause of a term is why it comes in
// another number of calls.
#include <array>

#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"

namespace commlens::deepspeed {
namespace {

constexpr std::array k_causes = {
    RuleRow{"start.broadcast_parameter", {Term::none, "start"}},
    RuleRow{"tensor.random_state", {Term::none, "start"}},
    RuleRow{"stage0.gradient_all_reduce", {Term::gradients, "gradient_buckets"}},
    RuleRow{"stage0.clip_norm", {Term::none, "gradient_norms"}},
    RuleRow{"stage0.clip_norm_model_parallel", {Term::none, "gradient_norms"}},
    RuleRow{"stage0.overflow_flag_model_parallel", {Term::none, "overflow_flags"}},
    RuleRow{"stage0.overflow_flag_of_experts", {Term::none, "overflow_flags"}},
    RuleRow{"stage0.norm_model_parallel", {Term::none, "gradient_norms"}},
    RuleRow{"bf16.norm_model_parallel", {Term::none, "gradient_norms"}},
    RuleRow{"step.gather_updated_parameters", {Term::parameters, "separate_calls"}},
    RuleRow{"zero12.overflow_flag", {Term::none, "overflow_flags"}},
    RuleRow{"zero12.overflow_flag_model_parallel", {Term::none, "overflow_flags"}},
    RuleRow{"zero12.norm", {Term::none, "gradient_norms"}},
    RuleRow{"zero12.norm_model_parallel", {Term::none, "gradient_norms"}},
    RuleRow{"zero12.norm_of_experts", {Term::none, "gradient_norms"}},
    RuleRow{"zero12.gradient_all_reduce", {Term::gradients, "gradient_buckets"}},
    RuleRow{"zero12.gradient_all_reduce_cut_at_partition", {Term::gradients, "bucket_cut_at_partition"}},
    RuleRow{"zero12.gradient_reduce_to_owner", {Term::gradients, "reduce_to_owner"}},
    RuleRow{"zero12.whole_buffer_all_reduce", {Term::gradients, "whole_buffer"}},
    RuleRow{"zero12.fallback_all_reduce", {Term::gradients, "gradient_buckets"}},
    RuleRow{"zero3.broadcast_parameter_again", {Term::none, "start"}},
    RuleRow{"zero3.start_gather", {Term::none, "start"}},
    RuleRow{"zero3.parameter_gather",
            {Term::parameters, "separate_calls", "parameters_kept",
             k_source<"runtime/zero/partitioned_param_coordinator.py:487 __params_to_release">}},
    RuleRow{"zero3.persistent_parameter_gather", {Term::parameters, "persistent_parameters"}},
    RuleRow{"zero3.trace_check", {Term::none, "trace_check"}},
    RuleRow{"zero3.gradient_reduce_scatter", {Term::gradients, "gradient_buckets"}},
    RuleRow{"zero3.gradient_all_reduce", {Term::gradients, "whole_buffer"}},
    RuleRow{"zero3.overflow_flag", {Term::none, "overflow_flags"}},
    RuleRow{"zero3.overflow_flag_model_parallel", {Term::none, "overflow_flags"}},
    RuleRow{"zero3.norm", {Term::none, "gradient_norms"}},
    RuleRow{"zero3.norm_model_parallel", {Term::none, "gradient_norms"}},
    RuleRow{"zero3.bucket_ids", {Term::none, "bucket_ids"}},
    RuleRow{"zero3.parameter_all_reduce", {Term::parameters, "all_reduce_fetch"}},
    RuleRow{"zero3.quantized_parameter_gather", {Term::parameters, "quantized"}},
    RuleRow{"zero3.quantization_scales", {Term::none, "quantized"}},
    RuleRow{"zero3.quantized_gradient_exchange", {Term::gradients, "quantized"}},
    RuleRow{"zero3.gathered_parameters", {Term::none, "gathered_parameters"}},
    RuleRow{"zero3.gathered_parameters_broadcast", {Term::none, "gathered_parameters"}},
    RuleRow{"zero3.gathered_parameters_check", {Term::none, "gathered_parameters"}},
    RuleRow{"tensor.row_output", {Term::tensor, "auto_tp"}},
    RuleRow{"tensor.column_input_gradient", {Term::tensor, "auto_tp"}},
    RuleRow{"tensor.first_inputs", {Term::none, "first_inputs"}},
    RuleRow{"tensor.first_inputs_compared", {Term::none, "first_inputs"}},
    RuleRow{"sequence.exchange_heads", {Term::none, "ulysses"}},
    RuleRow{"sequence.positions", {Term::none, "ulysses"}},
    RuleRow{"sequence.data_loader", {Term::none, "sequence_loader"}},
    RuleRow{"experts.capacity", {Term::none, "experts"}},
    RuleRow{"experts.exchange_tokens", {Term::none, "experts"}},
    RuleRow{"experts.gather_tokens", {Term::none, "experts"}},
    RuleRow{"experts.token_counts", {Term::none, "experts"}},
    RuleRow{"experts.exchange_routed_tokens", {Term::none, "experts"}},
    RuleRow{"trainer.items_in_batch", {Term::none, "item_counts"}},
    RuleRow{"trainer.loss", {Term::none, "logs"}},
    RuleRow{"trainer.flops", {Term::none, "logs"}},
    RuleRow{"zero3.norm_of_experts", {Term::none, "gradient_norms"}},
    RuleRow{"pipeline.parameter_count", {Term::none, "start"}},
    RuleRow{"pipeline.handshake", {Term::none, "start"}},
    RuleRow{"pipeline.activation_shape", {Term::none, "activation_shapes"}},
    RuleRow{"pipeline.activation_description", {Term::none, "activation_shapes"}},
    RuleRow{"pipeline.activation", {Term::boundary, "separate_calls"}},
    RuleRow{"pipeline.dual_activation", {Term::boundary, "separate_calls"}},
    RuleRow{"pipeline.dual_gradient", {Term::boundary, "separate_calls"}},
    RuleRow{"pipeline.dual_attention_mask", {Term::none, "attention_mask"}},
    RuleRow{"pipeline.attention_mask", {Term::none, "attention_mask"}},
    RuleRow{"pipeline.partition_meta", {Term::none, "partition_meta"}},
    RuleRow{"pipeline.gradient", {Term::boundary, "separate_calls"}},
    RuleRow{"pipeline.gather_partitioned_tensor", {Term::none, "pipeline_gathers"}},
    RuleRow{"pipeline.tied_weight_broadcast", {Term::none, "start"}},
    RuleRow{"pipeline.tied_gradient_all_reduce", {Term::none, "tied_gradients"}},
    RuleRow{"pipeline.loss_all_reduce", {Term::none, "loss"}},
    RuleRow{"pipeline.loss_broadcast", {Term::none, "loss"}},
    RuleRow{"checkpoint.tag", {Term::none, "checkpoint_tag"}},
    RuleRow{"checkpoint.barrier", {Term::none, "checkpoint_tag"}},
    RuleRow{"checkpoint.gather_partitioned_activations", {Term::none, "partitioned_activations"}},
};

}  // namespace

std::span<const RuleRow> causes() { return k_causes; }

}  // namespace commlens::deepspeed
