#include "commlens/config/key_synonyms.hpp"

#include <algorithm>

#include "commlens/base/text.hpp"
#include "commlens/config/map_reader.hpp"

namespace commlens {
namespace {

/// What tools call one setting, a setting a line, the name that is used most first.
constexpr std::string_view k_same_settings[] = {
    "tensor_model_parallel_size tensor_parallel_size tensor_parallel_degree model_parallel_size autotp_size "
    "tp_size tp",
    "pipeline_model_parallel_size pipeline_parallel_size pipeline_parallel_degree pipe_parallel_size pp_size "
    "pp",
    "context_parallel_size context_parallel_degree cp_size cp",
    "expert_model_parallel_size expert_parallel_size expert_parallel_degree ep_size ep",
    "num_layers num_hidden_layers n_layer n_layers layers",
    "hidden_size n_embd d_model dim embed_dim hidden",
    "num_attention_heads n_head n_heads num_heads heads",
    "num_query_groups num_key_value_heads num_kv_heads n_kv_heads kv_heads",
    "ffn_hidden_size intermediate_size n_inner ffn_dim hidden_dim ffn_hidden",
    "seq_length seq_len sequence_length max_seq_len max_seq_length model_max_length sequence",
    "max_position_embeddings n_positions",
    "vocab_size padded_vocab_size vocab",
    "micro_batch_size train_micro_batch_size_per_gpu per_device_train_batch_size local_batch_size "
    "micro_batch",
    "global_batch_size train_batch_size global_batch",
    "gradient_accumulation_steps num_microbatches micro_batches",
    "zero_optimization zero_stage",
    "clip_grad gradient_clipping max_grad_norm max_norm clip",
    "bf16 bfloat16",
    "fp16 float16",
    "num_experts num_local_experts n_routed_experts moe_num_experts experts",
    "moe_router_topk num_experts_per_tok top_k",
    "recompute_granularity activation_checkpointing gradient_checkpointing checkpoint_activations",
    "init_method_std initializer_range",
    "rotary_base rope_theta rotary_emb_base",
    "train_iters max_steps train_steps num_train_steps steps iterations",
    "lr learning_rate",
    "overlap_grad_reduce overlap_comm",
    "ddp_bucket_size reduce_bucket_size bucket_cap_mb"};

}  // namespace

std::string same_setting(std::string_view key, std::span<const std::string_view> candidates) {
  for (const std::string_view names : k_same_settings) {
    if (!is_one_of(key, names)) {
      continue;
    }
    for (std::string_view rest = names; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      const std::string_view name = rest.substr(0, end);
      if (name != key && std::find(candidates.begin(), candidates.end(), name) != candidates.end()) {
        return std::string(name);
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return "";
}

std::string meant_key(std::string_view key, std::span<const std::string_view> candidates) {
  const std::string same = same_setting(key, candidates);
  return same.empty() ? nearest(key, candidates) : same;
}

}  // namespace commlens
