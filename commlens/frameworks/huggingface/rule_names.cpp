#include "commlens/frameworks/huggingface/rule_names.hpp"

namespace commlens::huggingface {

const Rule k_count_items{"trainer.count_items", "transformers 5.23 trainer.py:2342 _get_num_items_in_batch"};
const Rule k_count_input{"trainer.count_input", "transformers 5.23 trainer.py:2740 _track_num_input_tokens"};
const Rule k_log_loss{"trainer.log_loss", "transformers 5.23 trainer.py:2249 _maybe_log_save_evaluate"};
const Rule k_log_flops{"trainer.log_flops", "transformers 5.23 trainer.py:4205 store_flos"};
const Rule k_load_broadcast{"accelerate.load_broadcast",
                            "accelerate 1.15 utils/fsdp_utils.py:635 fsdp2_load_full_state_dict"};
const Rule k_load_scatter{"accelerate.load_scatter",
                          "accelerate 1.15 utils/fsdp_utils.py:636 fsdp2_load_full_state_dict"};
const Rule k_save_gather{"trainer.save_gather", "transformers 5.23 trainer.py _save_checkpoint"};
const Rule k_save_describe{"trainer.save_describe", "torch 2.15 distributed/fsdp/_optim_utils.py:1335"};
const Rule k_plan_embedding{"plan.embedding",
                            "transformers 5.23 distributed/tensor_parallel.py:354 EmbeddingParallel"};
const Rule k_plan_output{"plan.row_wise_output",
                         "transformers 5.23 distributed/tensor_parallel.py:305 RowwiseParallel"};
const Rule k_plan_input{"plan.column_wise_input",
                        "transformers 5.23 distributed/tensor_parallel.py:192 ColwiseParallel"};
const Rule k_plan_norm{"plan.norm_gradient",
                       "transformers 5.23 distributed/tensor_parallel.py:377 ReplicatedWithGradAllReduce"};
const Rule k_plan_rope{"plan.rope_gradient",
                       "transformers 5.23 distributed/tensor_parallel.py:441 MlaKvAProjParallel"};
const Rule k_plan_experts{"plan.experts",
                          "transformers 5.23 distributed/tensor_parallel.py:572 MoeExpertsParallel"};
const Rule k_plan_routing{"plan.routing_gradient",
                          "transformers 5.23 distributed/tensor_parallel.py:556 MoeExpertsParallel"};
const Rule k_plan_logits{"plan.logits",
                         "transformers 5.23 distributed/tensor_parallel.py:212 colwise_gather_output"};

}  // namespace commlens::huggingface
