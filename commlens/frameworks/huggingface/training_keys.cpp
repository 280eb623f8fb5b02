// Lists what a training does with every key of its configurations.
#include "commlens/frameworks/training_keys.hpp"

#include <array>

#include "commlens/frameworks/huggingface/reader.hpp"

namespace commlens::huggingface {
namespace {

// transformers' configurations of the types in model_types.cpp
constexpr std::string_view k_honoured =
    "activation_function dtype gradient_checkpointing head_dim hidden_act hidden_size initializer_range "
    "intermediate_size layer_norm_eps layer_norm_epsilon max_position_embeddings model_type n_embd n_head "
    "n_inner n_layer n_positions num_attention_heads num_experts_per_tok num_hidden_layers "
    "num_key_value_heads num_local_experts partial_rotary_factor rope_parameters rope_theta "
    "rotary_emb_base rotary_pct tie_word_embeddings torch_dtype use_parallel_residual "
    "vocab_size";

constexpr std::string_view k_irrelevant =
    "_attn_implementation _commit_hash _name_or_path bad_words_ids begin_suppress_tokens bos_token_id "
    "chunk_size_feed_forward classifier_dropout cross_attention_hidden_size decoder_start_token_id "
    "diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size eos_token_id "
    "exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id id2label "
    "initializer_factor is_decoder label2id length_penalty mask_token_id max_length max_window_layers "
    "min_length n_ctx no_repeat_ngram_size num_beam_groups num_beams num_return_sequences "
    "output_attentions output_hidden_states output_past output_router_logits output_scores pad_token_id "
    "prefix pretraining_tp problem_type remove_invalid_values reorder_and_upcast_attn repetition_penalty "
    "return_dict return_dict_in_generate rms_norm_eps router_aux_loss_coef router_jitter_noise "
    "sep_token_id summary_activation summary_first_dropout summary_proj_to_labels summary_type "
    "summary_use_proj suppress_tokens task_specific_params temperature tf_legacy_loss tokenizer_class "
    "top_k top_p transformers_version typical_p unk_token_id use_bfloat16 use_cache use_sliding_window "
    // of models that only newer rules have
    "aux_loss_alpha ep_size initial_context_length n_group norm_topk_prob num_nextn_predict_layers "
    "qk_head_dim "
    "rope_interleave routed_scaling_factor scoring_func seq_aux swiglu_alpha swiglu_limit topk_group "
    "topk_method";

constexpr std::string_view k_refused =
    "add_cross_attention architectures attention_bias auto_map is_encoder_decoder mlp_bias pruned_heads "
    "quantization_config tie_encoder_decoder torchscript "
    // of models that our trainer does not have
    "decoder_sparse_step experts_per_token first_k_dense_replace kv_lora_rank mlp_only_layers "
    "moe_intermediate_size moe_layer_freq n_routed_experts n_shared_experts num_experts q_lora_rank "
    "qk_nope_head_dim qk_rope_head_dim v_head_dim";

constexpr std::array<UnhonouredKey, 12> k_warned = {{
    {"attention_dropout", "0", "no dropout"},
    {"attention_probs_dropout_prob", "0", "no dropout"},
    {"attn_pdrop", "0", "no dropout"},
    {"embd_pdrop", "0", "no dropout"},
    {"hidden_dropout", "0", "no dropout"},
    {"hidden_dropout_prob", "0", "no dropout"},
    {"layer_types", "off", "full attention in every layer"},
    {"resid_pdrop", "0", "no dropout"},
    {"rope_scaling", "off", "positions are not scaled"},
    {"scale_attn_by_inverse_layer_idx", "off", "the same scale in every layer"},
    {"scale_attn_weights", "true True", "scores are scaled"},
    {"sliding_window", "sequence", "attention to the whole sequence"},
}};

constexpr TrainingKeys k_keys{k_honoured, k_irrelevant, k_refused, k_warned};

}  // namespace

const TrainingKeys& training_keys() { return k_keys; }

}  // namespace commlens::huggingface
