#include "commlens/frameworks/torchtitan/rule_names.hpp"

namespace commlens::torchtitan {

const Rule k_init_mask{"titan.init_mask", "torch 2.15 nn/init.py _no_grad_trunc_normal_"};
const Rule k_init_seed{"titan.init_seed", "torchtitan 0.3.0 distributed/utils.py:254"};
const Rule k_valid_tokens{"titan.valid_tokens", "torchtitan 0.3.0 trainer.py train_step"};
const Rule k_tensor_gather{
    "titan.gather_sequence",
    "torchtitan 0.3.0 models/common/decoder_sharding.py, spmd_types/_collectives.py:307"};
const Rule k_tensor_output{
    "titan.sum_output", "torchtitan 0.3.0 models/common/decoder_sharding.py, spmd_types/_collectives.py:648"};
const Rule k_tensor_input{
    "titan.sum_input_gradient",
    "torchtitan 0.3.0 models/common/decoder_sharding.py, spmd_types/_collectives.py:648"};
const Rule k_tensor_loss{"titan.loss", "torchtitan 0.3.0 components/loss.py:151"};
const Rule k_context_gather{"titan.gather_keys", "torchtitan 0.3.0 models/common/decoder_sharding.py"};
const Rule k_context_reduce{"titan.reduce_key_gradients",
                            "torchtitan 0.3.0 models/common/decoder_sharding.py"};
const Rule k_expert_counts{"titan.expert_counts", "torchtitan 0.3.0 models/common/token_dispatcher.py"};
const Rule k_expert_tokens{"titan.expert_tokens", "torchtitan 0.3.0 models/common/token_dispatcher.py"};
const Rule k_expert_inputs{"titan.expert_inputs", "torchtitan 0.3.0 models/common/moe_sharding.py"};
const Rule k_expert_balance{"titan.expert_balance", "torchtitan 0.3.0 components/optimizer/optimizer.py:475"};
const Rule k_clip_norms{"titan.clip_norms", "torchtitan 0.3.0 distributed/utils.py clip_grad_norm_"};
const Rule k_clip_stages{"titan.clip_stages", "torchtitan 0.3.0 distributed/utils.py clip_grad_norm_"};
const Rule k_log{"titan.log", "torchtitan 0.3.0 trainer.py train_step"};
const Rule k_first_barrier{"titan.first_barrier", "torchtitan 0.3.0 distributed/utils.py:586"};
const Rule k_checkpoint_weights{"titan.checkpoint_weights", "torchtitan 0.3.0 models/common/attention.py"};
const Rule k_checkpoint_plan{"titan.checkpoint_plan",
                             "torch 2.15 distributed/checkpoint/state_dict_saver.py"};

}  // namespace commlens::torchtitan
