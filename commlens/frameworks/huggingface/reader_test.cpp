#include "commlens/frameworks/huggingface/reader.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/config/json_document.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

Result<Job> read_hf(const std::string& text) {
  return job_from_hf(parse_json("models/x/config.json", text).value());
}

std::string hf_error_of(const std::string& text) {
  const Result<Job> job = read_hf(text);
  return job ? "no error" : job.error().message;
}

const std::string k_gpt2 =
    R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "n_ctx": 1024,
        "vocab_size": 50257, "activation_function": "gelu_new", "n_inner": null)";

struct ShippedModel {
  const char* name;
  std::string config;
  std::int64_t parameters;
};

TEST(HfJson, CountsThePublishedModels) {
  const std::vector<ShippedModel> rows = {
      {"gpt2", k_gpt2 + "}", 124'439'808},
      {"gpt2-medium",
       R"({"model_type": "gpt2", "n_layer": 24, "n_embd": 1024, "n_head": 16, "n_positions": 1024,
           "vocab_size": 50257})",
       354'823'168},
      {"pythia-70m",
       R"({"model_type": "gpt_neox", "num_hidden_layers": 6, "hidden_size": 512, "num_attention_heads": 8,
           "intermediate_size": 2048, "max_position_embeddings": 2048, "vocab_size": 50304,
           "tie_word_embeddings": false})",
       70'426'624},
      {"llama-7b",
       R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
           "intermediate_size": 11008, "max_position_embeddings": 4096, "vocab_size": 32000})",
       6'738'415'616},
      {"mistral-7b",
       R"({"model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
           "num_key_value_heads": 8, "intermediate_size": 14336, "max_position_embeddings": 32768,
           "vocab_size": 32000, "sliding_window": 4096})",
       7'241'732'096},
      {"mixtral-8x7b",
       R"({"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
           "num_key_value_heads": 8, "intermediate_size": 14336, "max_position_embeddings": 32768,
           "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2})",
       46'702'792'704},
      {"llama-3-8b",
       R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
           "num_key_value_heads": 8, "intermediate_size": 14336, "max_position_embeddings": 8192,
           "vocab_size": 128256, "rope_theta": 500000.0, "tie_word_embeddings": false})",
       8'030'261'248},
      {"llama-3.1-70b",
       R"({"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
           "num_key_value_heads": 8, "intermediate_size": 28672, "max_position_embeddings": 131072,
           "vocab_size": 128256, "rope_theta": 500000.0, "tie_word_embeddings": false})",
       70'553'706'496},
      // 152,064 x 3,584 of each table, 28 layers of 233,057,792 (q 3,584 x 3,585, k and v 512 x 3,585 each,
      // o 3,584^2, MLP 3 x 18,944 x 3,584, norms 2 x 3,584), the last norm
      {"qwen2.5-7b",
       R"({"model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
           "num_key_value_heads": 4, "intermediate_size": 18944, "max_position_embeddings": 131072,
           "max_window_layers": 28, "use_sliding_window": false, "vocab_size": 152064})",
       7'615'616'512},
      {"qwen3-8b",
       R"({"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32,
           "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288,
           "max_position_embeddings": 40960, "vocab_size": 151936})",
       8'190'735'360},
      {"qwen3-30b-a3b",
       R"({"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32,
           "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
           "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
           "max_position_embeddings": 40960, "norm_topk_prob": true, "vocab_size": 151936})",
       30'532'122'624},
      {"deepseek-v3",
       R"({"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168,
           "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
           "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
           "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1, "q_lora_rank": 1536,
           "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
           "max_position_embeddings": 163840, "n_group": 8, "topk_group": 4, "topk_method": "noaux_tc",
           "scoring_func": "sigmoid", "routed_scaling_factor": 2.5, "vocab_size": 129280})",
       671'026'404'352},
      {"gpt-oss-20b",
       R"({"model_type": "gpt_oss", "num_hidden_layers": 24, "hidden_size": 2880, "num_attention_heads": 64,
           "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32,
           "num_experts_per_tok": 4, "experts_per_token": 4, "max_position_embeddings": 131072,
           "initial_context_length": 4096, "attention_bias": true, "swiglu_limit": 7.0,
           "vocab_size": 201088})",
       20'914'757'184}};
  for (const ShippedModel& row : rows) {
    const Result<Job> job = read_hf(row.config);
    ASSERT_TRUE(job) << row.name << ": " << job.error().message;
    const Result<Job> valid = validated(*job);
    ASSERT_TRUE(valid) << row.name << ": " << valid.error().message;
    EXPECT_EQ(parameter_count(valid->model).value, row.parameters) << row.name;
    EXPECT_TRUE(job->warnings.empty()) << row.name << ": " << job->warnings[0];
  }
}

/// Keys that are left out stand for the defaults of the configuration classes (configuration_*.py of
/// transformers 5.23), null for none.
TEST(HfJson, TakesDefaultsOfTheClassForKeysLeftOut) {
  const auto model = [](const std::string& type, const std::string& more) {
    return read_hf(R"({"model_type": ")" + type + R"(", "num_hidden_layers": 32, "hidden_size": 4096,
                       "num_attention_heads": 32, "intermediate_size": 14336,
                       "max_position_embeddings": 32768, "vocab_size": 32000)" +
                   more + "}")
        .value()
        .model;
  };
  Job mistral;
  mistral.model = model("mistral", "");
  EXPECT_EQ(parameter_count(validated(mistral)->model).value, 7'241'732'096);
  EXPECT_EQ(model("mistral", R"(, "num_key_value_heads": null)").kv_heads, 0);  // as many as heads
  EXPECT_EQ(model("llama", "").kv_heads, 0);
  EXPECT_EQ(model("mixtral", R"(, "num_local_experts": 8, "num_experts_per_tok": 2)").kv_heads, 8);
  EXPECT_EQ(model("qwen2", "").kv_heads, 32);
  EXPECT_EQ(model("qwen3", "").kv_heads, 32);
  const std::string experts = R"(, "num_experts_per_tok": 2, "moe_intermediate_size": 768)";
  EXPECT_EQ(model("qwen3_moe", experts + R"(, "num_experts": 8)").kv_heads, 4);
  EXPECT_EQ(model("gpt_oss", experts + R"(, "num_local_experts": 8)").kv_heads, 8);
  const ModelConfig second = model("deepseek_v2", experts + R"(, "n_routed_experts": 8)");
  EXPECT_EQ(second.latent.query_rank, 1536);
  EXPECT_EQ(second.shared_experts, 2);
  EXPECT_EQ(second.dense_layers, 0);
  const ModelConfig third =
      model("deepseek_v3", experts + R"(, "n_routed_experts": 8, "first_k_dense_replace": 1)");
  EXPECT_EQ(third.shared_experts, 1);
  EXPECT_EQ(third.dense_layers, 1);
  EXPECT_EQ(model("deepseek_v3", experts + R"(, "n_routed_experts": 8)").dense_layers, 3);
  EXPECT_EQ(
      model("deepseek_v3", experts + R"(, "n_routed_experts": 8, "q_lora_rank": null)").latent.query_rank, 0);
}

TEST(HfJson, TrainsOneSequenceOfTheLongestLengthByDefault) {
  const Job job = read_hf(k_gpt2 + R"(, "torch_dtype": "bfloat16"})").value();
  EXPECT_EQ(job.framework, "commlens");
  EXPECT_EQ(job.model.name, "x");
  EXPECT_EQ(job.model.sequence, 1024);
  EXPECT_EQ(job.train.micro_batch, 1);
  EXPECT_EQ(job.train.micro_batches, 1);
  EXPECT_EQ(job.train.dtype, DType::bf16);
  EXPECT_EQ(read_hf(k_gpt2 + "}")->train.dtype, DType::fp32);
}

TEST(HfJson, NamesWhatItLeavesOut) {
  const auto skipped = [](const std::string& text) {
    const Job job = read_hf(k_gpt2 + ", " + text + "}").value();
    return job.unmodelled.empty() ? "" : job.unmodelled.front();
  };
  const std::pair<std::string, std::string> rows[] = {
      {R"("quantization_config": {"load_in_4bit": true})", "'quantization_config'"},
      {R"("auto_map": {"AutoModel": "modeling.py"})", "'auto_map'"},
      {R"("add_cross_attention": true)", "'add_cross_attention'"},
      {R"("architectures": ["GPT2ForSequenceClassification"])",
       "'architecture GPT2ForSequenceClassification'"}};
  for (const auto& [text, name] : rows) {
    EXPECT_EQ(skipped(text), name + " (models/x/config.json:2) has no rules");
  }
  EXPECT_EQ(skipped(R"("attn_logit_softcapping": 50.0)"),
            "unknown key 'attn_logit_softcapping' (models/x/config.json:2)");
  EXPECT_EQ(skipped(R"("architectures": ["GPT2LMHeadModel"], "pruned_heads": {}, "quantization_config": null,
                        "temperature": 1.0, "is_encoder_decoder": false, "attn_logit_softcapping": null)"),
            "");
}

TEST(HfJson, GradientCheckpointingIsRecomputation) {
  EXPECT_EQ(read_hf(k_gpt2 + R"(, "gradient_checkpointing": true})")->train.recompute, Recompute::full);
  EXPECT_EQ(read_hf(k_gpt2 + R"(, "gradient_checkpointing": false})")->train.recompute, Recompute::none);
}

TEST(HfJson, ReadsWhichAttentionKeepsScores) {
  const auto attention = [](const std::string& name) {
    return read_hf(k_gpt2 + R"(, "_attn_implementation": )" + name + "}")->train.attention;
  };
  EXPECT_EQ(attention(R"("flash_attention_2")"), Attention::flash);
  EXPECT_EQ(attention(R"("sdpa")"), Attention::flash);
  EXPECT_EQ(attention(R"("eager")"), Attention::eager);
  EXPECT_FALSE(attention("null").has_value());
}

TEST(HfJson, RefusesOtherModelsByName) {
  EXPECT_EQ(
      hf_error_of("{\n\"model_type\": \"t5\"}"),
      "models/x/config.json:2: 'model_type' is 't5', which is not supported; choose from gpt2, gpt_neox, "
      "llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, deepseek_v2, deepseek_v3, gpt_oss");
  EXPECT_EQ(hf_error_of("{}"), "models/x/config.json:1: 'model_type' is missing");
  EXPECT_EQ(hf_error_of(R"({"model_type": "gpt2", "n_layer": 2})"),
            "models/x/config.json:1: 'n_embd' is missing");
  EXPECT_EQ(hf_error_of(k_gpt2 + R"(, "torch_dtype": "int8"})"),
            "models/x/config.json:2: 'torch_dtype' is 'int8', which is not supported; choose from float32, "
            "float16, "
            "bfloat16");
}

}  // namespace
}  // namespace commlens
