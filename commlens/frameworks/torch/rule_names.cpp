#include "commlens/frameworks/torch/rule_names.hpp"

namespace commlens::pytorch {

const Rule k_fsdp_gather{"fsdp.all_gather",
                         "torch 2.15 distributed/fsdp/_fully_shard/_fsdp_collectives.py foreach_all_gather"};
const Rule k_fsdp_gather_part{
    "fsdp.all_gather_part",
    "torch 2.15 distributed/fsdp/_fully_shard/_fsdp_param_group.py _to_sharded_post_forward"};
const Rule k_fsdp_reduce_scatter{
    "fsdp.reduce_scatter", "torch 2.15 distributed/fsdp/_fully_shard/_fsdp_collectives.py foreach_reduce"};
const Rule k_fsdp_reduce_replicas{
    "fsdp.all_reduce_replicas",
    "torch 2.15 distributed/fsdp/_fully_shard/_fsdp_collectives.py foreach_reduce"};
const Rule k_fsdp_sum_partial{"fsdp.sum_partial_gradient",
                              "torch 2.15 distributed/fsdp/_fully_shard/_fsdp_param.py:1265"};
const Rule k_fsdp1_reduce{"fsdp1.reduce", "torch 2.15 distributed/fsdp/_runtime_utils.py _reduce_grad"};
const Rule k_fsdp1_states{"fsdp1.sync_module_states",
                          "torch 2.15 distributed/fsdp/_init_utils.py _sync_module_params_and_buffers"};
const Rule k_tensor_scatter{"tensor.scatter_weights",
                            "torch 2.15 distributed/tensor/parallel/style.py:127 distribute_tensor"};
const Rule k_tensor_gather{"tensor.gather_sequence", "torch 2.15 distributed/tensor/parallel/style.py:542"};
const Rule k_tensor_reduce_scatter{"tensor.scatter_sequence",
                                   "torch 2.15 distributed/tensor/parallel/style.py:298"};
const Rule k_tensor_sum{"tensor.sum_output", "torch 2.15 distributed/tensor/parallel/style.py:298"};
const Rule k_tensor_input_sum{"tensor.sum_input_gradient",
                              "torch 2.15 distributed/_functional_collectives.py:229"};
const Rule k_tensor_logits{"tensor.gather_logits", "torch 2.15 distributed/tensor/parallel/style.py:149"};
const Rule k_tensor_loss{"tensor.loss_parallel", "torch 2.15 distributed/tensor/parallel/loss.py:209"};
const Rule k_tensor_optimizer{"tensor.sum_in_optimizer", "torch 2.15 optim/adam.py:457"};
const Rule k_context_gather{
    "context.gather_keys",
    "torch 2.15 distributed/tensor/experimental/_context_parallel/_attention.py _AllGatherRotater"};
const Rule k_context_gather_all{
    "context.gather_all_keys",
    "torch 2.15 distributed/tensor/experimental/_context_parallel/_cp_custom_ops.py:9"};
const Rule k_context_reduce{
    "context.reduce_gradients",
    "torch 2.15 distributed/tensor/experimental/_context_parallel/_cp_custom_ops.py:37"};
const Rule k_context_exchange{
    "context.exchange_keys",
    "torch 2.15 distributed/tensor/experimental/_context_parallel/_attention.py _AllToAllRotater"};
const Rule k_context_gradients{"context.exchange_gradients",
                               "torch 2.15 distributed/tensor/experimental/_context_parallel/_attention.py "
                               "_templated_ring_attention_backward"};
const Rule k_ddp_verify{"ddp.verify_shapes", "torch 2.15 distributed/utils.py:299"};
const Rule k_ddp_states{"ddp.broadcast_states", "torch 2.15 distributed/utils.py:339"};
const Rule k_ddp_buffers{"ddp.broadcast_buffers", "torch 2.15 nn/parallel/distributed.py _sync_buffers"};
const Rule k_ddp_rebuild{"ddp.rebuild_buckets", "torch 2.15 nn/parallel/distributed.py:1797"};
const Rule k_ddp_first_bucket{
    "ddp.first_bucket", "torch 2.15 csrc/distributed/c10d/reducer.cpp compute_bucket_assignment_by_size"};
const Rule k_ddp_bucket{"ddp.bucket", "torch 2.15 csrc/distributed/c10d/reducer.cpp rebuild_buckets"};
const Rule k_ddp_unused{"ddp.used_parameters",
                        "torch 2.15 csrc/distributed/c10d/reducer.cpp all_reduce_local_used_map"};
const Rule k_ddp_join{"ddp.join", "torch 2.15 distributed/algorithms/join.py:340"};
const Rule k_pipeline_message{"pipeline.message",
                              "torch 2.15 distributed/pipelining/schedules.py _batch_p2p"};
const Rule k_pipeline_vote{"pipeline.vote", "torch 2.15 distributed/pipelining/schedules.py:463"};
const Rule k_pipeline_connect{"pipeline.connect", "torch 2.15 distributed/pipelining/_p2p.py:380"};
const Rule k_pipeline_shapes{"pipeline.infer_shapes", "torch 2.15 distributed/pipelining/stage.py:1825"};
const Rule k_clip_norms{"clip.norms", "torch 2.15 distributed/tensor/_ops/_math_ops.py:105"};
const Rule k_clip_partial{"clip.partial_gradient", "torch 2.15 nn/utils/clip_grad.py:95"};
const Rule k_clip_full_tensor{"clip.full_tensor", "torch 2.9 distributed/tensor/_ops/_math_ops.py:126"};

}  // namespace commlens::pytorch
