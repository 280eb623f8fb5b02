#include "commlens/frameworks/torchtitan/rule_names.hpp"

namespace commlens::torchtitan {

const Rule k_init_mask{"titan.init_mask",
                       "torch 2.15 nn/init.py:119, distributed/tensor/placement_types.py:606"};
const Rule k_init_seed{"titan.init_seed", "torchtitan 0.3.0 distributed/utils.py:262"};
const Rule k_valid_tokens{"titan.valid_tokens", "torchtitan 0.3.0 trainer.py:899, distributed/utils.py:129"};
const Rule k_tensor_gather{
    "titan.gather_sequence",
    "torchtitan 0.3.0 models/common/decoder_sharding.py:183, spmd_types/_collectives.py:307"};
const Rule k_tensor_output{
    "titan.sum_output",
    "torchtitan 0.3.0 models/common/decoder_sharding.py:81, spmd_types/_collectives.py:71, :648"};
const Rule k_tensor_input{
    "titan.sum_input_gradient",
    "torchtitan 0.3.0 models/common/decoder_sharding.py:183, spmd_types/_collectives.py:71, :648"};
const Rule k_tensor_loss{"titan.loss", "torchtitan 0.3.0 components/loss.py:151, :158, :174"};
const Rule k_context_gather{"titan.gather_keys", "torchtitan 0.3.0 distributed/context_parallel/api.py:73"};
const Rule k_context_reduce{
    "titan.reduce_key_gradients",
    "torch 2.15 distributed/tensor/experimental/_context_parallel/_cp_custom_ops.py:37"};
const Rule k_expert_counts{
    "titan.expert_counts",
    "torchtitan 0.3.0 models/common/token_dispatcher.py:268, spmd_types/_collectives.py:878"};
const Rule k_expert_tokens{
    "titan.expert_tokens",
    "torchtitan 0.3.0 models/common/token_dispatcher.py:335, :363, spmd_types/_collectives.py:920"};
const Rule k_expert_inputs{"titan.expert_inputs", "torchtitan 0.3.0 models/common/moe_sharding.py:98, :202"};
const Rule k_expert_balance{"titan.expert_balance",
                            "torchtitan 0.3.0 components/optimizer/optimizer.py:475, :480"};
const Rule k_clip_norms{"titan.clip_norms", "torchtitan 0.3.0 distributed/utils.py:665, :716, :723"};
const Rule k_clip_stages{"titan.clip_stages", "torchtitan 0.3.0 distributed/utils.py:672, :738"};
const Rule k_log{"titan.log", "torchtitan 0.3.0 trainer.py:977, distributed/utils.py:129"};
const Rule k_first_barrier{"titan.first_barrier", "torchtitan 0.3.0 distributed/utils.py:586"};
const Rule k_checkpoint_weights{"titan.checkpoint_weights",
                                "torchtitan 0.3.0 models/common/attention.py:885"};
const Rule k_checkpoint_plan{"titan.checkpoint_plan",
                             "torch 2.15 distributed/checkpoint/state_dict_saver.py:487, :513"};

}  // namespace commlens::torchtitan
