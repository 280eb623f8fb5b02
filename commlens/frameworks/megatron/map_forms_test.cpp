#include "commlens/frameworks/megatron/map_forms.hpp"

#include <string>

#include <gtest/gtest.h>

#include "commlens/config/yaml_document.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/reader.hpp"

namespace commlens::megatron {
namespace {

Result<Job> read_map(const std::string& yaml) {
  const Result<ConfigNode> document = parse_yaml("r.yaml", yaml);
  return document ? job_from_megatron(*document, 0) : tl::unexpected(document.error());
}

std::string error_of_map(const std::string& yaml) {
  const Result<Job> job = read_map(yaml);
  return job ? "no error" : job.error().message;
}

const std::string k_recipe =
    "ENV_VARS: {TP: 4, CUDA_DEVICE_MAX_CONNECTIONS: 1}\nTEST_TYPE: release\nMODEL_ARGS:\n"
    "  --num-layers: 8\n  --hidden-size: 64\n  --num-attention-heads: 4\n  --seq-length: ${SEQ_LEN:-32}\n"
    "  --max-position-embeddings: 32\n";

TEST(MapForms, ReadRecipesWithTheirVariables) {
  const Job job =
      read_map(k_recipe +
               "  --tensor-model-parallel-size: ${TP}\n  --sequence-parallel: true\n  --bf16: false\n"
               "  --load: ${LOAD_PATH}\n  --rampup-batch-size: \"[384 384 97656250]\"\n"
               "  --recompute-modules: \"[mlp moe_act]\"\n  --no-mmap-bin-files: true\n"
               "METRICS: [\"lm loss\"]\n")
          .value();
  EXPECT_EQ(job.layout.tp, 4);
  EXPECT_EQ(job.model.sequence, 32);
  EXPECT_TRUE(job.layout.sequence_parallel);
  EXPECT_EQ(job.train.dtype, DType::fp32);
  EXPECT_EQ(options(job).recompute_modules, std::vector<std::string>({"mlp", "moe_act"}));
  EXPECT_EQ(job.unmodelled, std::vector<std::string>({"'rampup_batch_size' (r.yaml:13) has no rules"}));
}

TEST(MapForms, AVariableThatNothingSetsIsRefused) {
  EXPECT_EQ(error_of_map(k_recipe + "  --pipeline-model-parallel-size: ${PP}\n"),
            "r.yaml:9: 'pipeline_model_parallel_size' is '${PP}', and nothing in the file says what $PP is; "
            "write its "
            "value");
}

TEST(MapForms, ReadTheSectionsOfYamlCfg) {
  const Job job = read_map(
                      "micro_batch_size: 2\nlanguage_model:\n  num_layers: 8\n  hidden_size: 64\n"
                      "  num_attention_heads: 4\n  num_query_groups: 2\n  gated_linear_unit: true\n"
                      "  add_bias_linear: False\n  layernorm_epsilon: 1.0e-6\nmodel_parallel:\n"
                      "  tensor_model_parallel_size: 2\n  overlap_p2p_comm: false\nseq_length: 32\n"
                      "max_position_embeddings: 32\n")
                      .value();
  EXPECT_EQ(job.model.layers, 8);
  EXPECT_EQ(job.model.kv_heads, 2);
  EXPECT_TRUE(job.model.gated_mlp);
  EXPECT_FALSE(job.model.linear_bias);
  EXPECT_EQ(job.layout.tp, 2);
  EXPECT_FALSE(options(job).overlaps_p2p);
  EXPECT_TRUE(job.unmodelled.empty());
}

const std::string k_bridge =
    "_target_: megatron.bridge.training.config.ConfigContainer\n"
    "model:\n  _target_: megatron.bridge.models.mla_provider.MLAModelProvider\n  num_layers: 8\n  "
    "hidden_size: 64\n"
    "  num_attention_heads: 4\n  num_query_groups: 2\n  seq_length: 32\n  vocab_size: 1000\n  "
    "should_pad_vocab: false\n"
    "  num_moe_experts: 4\n  moe_layer_freq: [0, 1, 1, 1, 1, 1, 1, 1]\n  gated_linear_unit: true\n"
    "  activation_func: {_target_: torch.nn.functional.silu}\n  add_bias_linear: false\n  bf16: true\n"
    "  share_embeddings_and_output_weights: false\n  pipeline_model_parallel_size: 2\n"
    "  virtual_pipeline_model_parallel_size: 2\n  overlap_p2p_comm: false\n  recompute_modules: "
    "[mla_up_proj, mlp]\n"
    "  recompute_granularity: selective\n  scatter_embedding_sequence_parallel: true\n  attention_backend: "
    "AttnBackend.flash\n  moe_z_loss_coeff: null\n"
    "ddp: {use_distributed_optimizer: true, overlap_grad_reduce: true, grad_reduce_in_fp32: true, "
    "average_in_collective: true}\n"
    "train: {micro_batch_size: 1, global_batch_size: 16, train_iters: 50, manual_gc: true}\n"
    "rerun_state_machine: {rerun_mode: disabled}\nlogger: {log_interval: 1, wandb_project: x}\n"
    "dataset: {_target_: x, sequence_length: 32, create_attention_mask: false}\nft: null\n";

TEST(MapForms, ReadMegatronBridge) {
  const Job job = read_map(k_bridge).value();
  EXPECT_EQ(job.model.kv_heads, 2);
  EXPECT_EQ(job.model.experts, 4);
  EXPECT_EQ(job.model.dense_layers, 1);
  EXPECT_TRUE(job.model.vocab_is_padded);
  EXPECT_EQ(job.model.vocab, 1000);
  EXPECT_FALSE(job.model.tied_embeddings);
  EXPECT_EQ(job.layout.virtual_stages, 2);
  EXPECT_FALSE(options(job).overlaps_p2p);
  EXPECT_TRUE(options(job).gradients_in_fp32);
  EXPECT_TRUE(options(job).averages_in_collective);
  EXPECT_FALSE(options(job).has_attention_mask);
  EXPECT_EQ(options(job).rerun_mode, "disabled");
  EXPECT_EQ(options(job).recompute_modules, std::vector<std::string>({"mla_up_proj", "mlp"}));
  EXPECT_EQ(job.train.zero_stage, 1);
  EXPECT_EQ(job.global_batch, 16);
  EXPECT_EQ(job.unmodelled,
            std::vector<std::string>(
                {"Megatron-Bridge's own training loop (r.yaml:1) is read as that of Megatron-LM"}));
}

TEST(MapForms, SectionsOfMegatronBridgeThatDecideOverOthers) {
  const Job job =
      read_map(k_bridge +
               "comm_overlap: {tp_comm_overlap: true, overlap_p2p_comm: null, bucket_size: null}\n"
               "mixed_precision: {bf16: true, grad_reduce_in_fp32: false}\n")
          .value();
  EXPECT_TRUE(options(job).overlaps_tp);
  EXPECT_TRUE(options(job).overlaps_p2p);
  EXPECT_EQ(options(job).bucket_size, 134'217'728);
  EXPECT_FALSE(options(job).gradients_in_fp32);
  EXPECT_TRUE(options(job).gradients_in_bf16);
  const Job named = read_map(k_bridge + "mixed_precision: bf16_mixed\n").value();
  EXPECT_TRUE(options(named).gradients_in_fp32);
  EXPECT_EQ(error_of_map(k_bridge + "peft: {dim: 8}\n"),
            "r.yaml:32: 'peft' trains a part of the model, which has no rules here");
}

TEST(MapForms, ALayoutMayBeAListOfStages) {
  std::string text = k_bridge;
  text.replace(text.find("  virtual_pipeline_model_parallel_size: 2\n"), 42,
               "  pipeline_model_parallel_layout: [[embedding, decoder, decoder], [decoder, decoder], "
               "[decoder, decoder], "
               "[decoder, decoder, loss]]\n");
  const Job job = read_map(text).value();
  EXPECT_EQ(options(job).stage_layout, "Ett|tt|tt|ttL");
  EXPECT_EQ(job.layout.virtual_stages, 2);
}

}  // namespace
}  // namespace commlens::megatron
