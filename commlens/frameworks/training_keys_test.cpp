// Every key of the configurations we read is honoured, irrelevant to the numbers, refused, or named in a
// warning.
#include "commlens/frameworks/training_keys.hpp"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "commlens/base/file.hpp"
#include "commlens/config/json_document.hpp"
#include "commlens/config/yaml_document.hpp"
#include "commlens/frameworks/deepspeed/reader.hpp"
#include "commlens/frameworks/huggingface/reader.hpp"
#include "commlens/frameworks/megatron/reader.hpp"
#include "commlens/frameworks/neox/reader.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> words_of(std::string_view words) {
  std::vector<std::string> all;
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    all.emplace_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return all;
}

std::vector<std::string> all_of(const TrainingKeys& keys) {
  std::vector<std::string> all;
  for (const std::string_view words : {keys.honoured, keys.irrelevant, keys.refused}) {
    const std::vector<std::string> more = words_of(words);
    all.insert(all.end(), more.begin(), more.end());
  }
  for (const UnhonouredKey& key : keys.warned) {
    all.emplace_back(key.name);
  }
  return all;
}

const TrainingKeys* const k_sources[] = {&neox::training_keys(), &deepspeed::training_keys(),
                                         &huggingface::training_keys(), &megatron::training_keys()};

TEST(TrainingKeys, EachStandsInExactlyOneList) {
  for (const TrainingKeys* const source : k_sources) {
    const std::vector<std::string> all = all_of(*source);
    EXPECT_GT(all.size(), 100U);
    std::set<std::string> seen;
    for (const std::string& key : all) {
      EXPECT_TRUE(seen.insert(key).second) << key;
      EXPECT_TRUE(use_of(*source, key)) << key;
    }
  }
}

/// The keys of a map that are in no list, in sections that are honoured too.
void find_unlisted(const ConfigNode& map, const TrainingKeys& source, const std::string& prefix,
                   std::vector<std::string>& unlisted) {
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    const std::string key = prefix + map.keys[i];
    const bool is_of_deepspeed = &source == &neox::training_keys() && !use_of(source, key);
    const TrainingKeys& owner = is_of_deepspeed ? deepspeed::training_keys() : source;
    const std::optional<KeyUse> use = use_of(owner, key);
    if (!use) {
      unlisted.push_back(map.items[i].where() + " " + key);
    } else if (map.items[i].kind == ConfigNode::Kind::map && *use == KeyUse::honoured &&
               key != "rope_parameters") {
      const bool is_extra = key == "deepspeed_extra_args";
      find_unlisted(map.items[i], is_extra ? deepspeed::training_keys() : owner, is_extra ? "" : key + ".",
                    unlisted);
    }
  }
}

std::vector<std::string> unlisted_of(const ConfigNode& map, const TrainingKeys& source) {
  std::vector<std::string> unlisted;
  find_unlisted(map, source, "", unlisted);
  return unlisted;
}

ConfigNode neox_file(const fs::path& path) {
  ConfigNode document = parse_yaml(path.string(), read_text_file(path, 1 << 20).value()).value();
  use_underscores(document);
  return document;
}

fs::path source_directory() {
  const char* const directory = std::getenv("COMMLENS_SOURCE_DIR");
  return directory == nullptr ? fs::path(__FILE__).parent_path().parent_path().parent_path().parent_path()
                              : fs::path(directory);
}

TEST(TrainingKeys, HaveEveryKeyOfTheExamples) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(source_directory() / "examples")) {
    if (entry.path().extension() == ".yml") {
      EXPECT_EQ(unlisted_of(neox_file(entry.path()), neox::training_keys()), std::vector<std::string>{});
      ++files;
    }
  }
  EXPECT_GE(files, 1);
}

TEST(TrainingKeys, HaveEveryKeyOfTheGptNeoxConfigs) {
  const char* const data = std::getenv("COMMLENS_TEST_DATA");
  const fs::path directory = fs::path(data == nullptr ? "" : data) / "golden" / "neox_configs";
  if (data == nullptr || !fs::exists(directory)) {
    GTEST_SKIP() << "COMMLENS_TEST_DATA names no directory with golden/neox_configs";
  }
  for (const auto& entry : fs::directory_iterator(directory)) {
    EXPECT_EQ(unlisted_of(neox_file(entry.path()), neox::training_keys()), std::vector<std::string>{});
  }
}

/// The keys of the config.json that the published models come with.
const std::map<std::string, std::string> k_hugging_face = {
    {"gpt2",
     R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 50256,
         "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
         "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
         "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1, "summary_proj_to_labels": true,
         "summary_type": "cls_index", "summary_use_proj": true,
         "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257})"},
    {"pythia-70m",
     R"({"architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "gelu",
         "hidden_size": 512, "initializer_range": 0.02, "intermediate_size": 2048, "layer_norm_eps": 1e-05,
         "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 8, "num_hidden_layers": 6,
         "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": false, "torch_dtype": "float16",
         "transformers_version": "4.24.0", "use_cache": true, "use_parallel_residual": true, "vocab_size": 50304})"},
    {"llama-2-7b",
     R"({"architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
         "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 4096,
         "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
         "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "tie_word_embeddings": false,
         "torch_dtype": "float16", "transformers_version": "4.31.0.dev0", "use_cache": true, "vocab_size": 32000})"},
    {"mistral-7b",
     R"({"architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
         "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
         "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
         "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": false,
         "torch_dtype": "bfloat16", "transformers_version": "4.34.0.dev0", "use_cache": true, "vocab_size": 32000})"},
    {"mixtral-8x7b",
     R"({"architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
         "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
         "max_position_embeddings": 32768, "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2,
         "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false,
         "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": null,
         "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.36.0.dev0",
         "use_cache": true, "vocab_size": 32000})"},
    {"a configuration of transformers 5",
     R"({"attention_bias": true, "attention_dropout": 0.0, "dtype": "bfloat16", "hidden_act": "gelu", "hidden_size": 512,
         "intermediate_size": 2048, "max_position_embeddings": 2048, "model_type": "gpt_neox",
         "num_attention_heads": 8, "num_hidden_layers": 6, "vocab_size": 50304,
         "rope_parameters": {"rope_theta": 10000, "partial_rotary_factor": 0.25, "rope_type": "default"}})"}};

TEST(TrainingKeys, HaveEveryKeyOfPublishedHuggingFaceModels) {
  for (const auto& [name, text] : k_hugging_face) {
    const ConfigNode config = parse_json(name, text).value();
    EXPECT_EQ(unlisted_of(config, huggingface::training_keys()), std::vector<std::string>{});
    const Result<Job> job = job_from_hf(config);
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_TRUE(job->warnings.empty()) << name << job->warnings.front();
  }
}

TEST(TrainingKeys, AnUnknownKeyIsInNoList) {
  const ConfigNode config =
      parse_yaml("m.yml", "num_layers: 2\nwarm_up: 3\noptimizer: {params: {speed: 1}}\n").value();
  EXPECT_EQ(unlisted_of(config, neox::training_keys()),
            (std::vector<std::string>{"m.yml:2 warm_up", "m.yml:3 optimizer.params.speed"}));
}

const std::string k_neox_model =
    "num_layers: 4\nhidden_size: 64\nnum_attention_heads: 4\nseq_length: 32\nmax_position_embeddings: 64\n";

Result<Job> neox(const std::string& more) {
  return job_from_neox(merged_neox({parse_yaml("m.yml", k_neox_model + more).value()}).value(), 0, "");
}

using Notes = std::vector<std::string>;

TEST(TrainingKeys, OfGptNeoxAreHonoured) {
  const Job job =
      neox(
          "optimizer: {type: Adam, params: {lr: 0.0003, betas: [0.8, 0.99], eps: 1.0e-6}}\nmin_lr: 0.00001\n"
          "lr_decay_style: cosine\nlr_decay_iters: 200\ntrain_iters: 400\nwarmup: 0.05\nweight_decay: "
          "0.3\nseed: 7\n"
          "layernorm_epsilon: 1.0e-6\nactivation: relu\nrotary_emb_base: 50000\npos_emb: alibi\n"
          "init_method: small_init\noutput_layer_init_method: wang_init\ninit_method_std: 0.01\n")
          .value();
  const TrainingRecipe& recipe = job.recipe;
  EXPECT_EQ(recipe.learning_rate, 3e-4);
  EXPECT_EQ(recipe.beta1, 0.8);
  EXPECT_EQ(recipe.beta2, 0.99);
  EXPECT_EQ(recipe.epsilon, 1e-6);
  EXPECT_EQ(recipe.min_learning_rate, 1e-5);
  EXPECT_EQ(recipe.decay, DecayStyle::cosine);
  EXPECT_EQ(recipe.decay_iterations, 200);
  EXPECT_EQ(recipe.warmup_fraction, 0.05);
  EXPECT_EQ(recipe.weight_decay, 0.3);
  EXPECT_EQ(recipe.seed, 7);
  EXPECT_EQ(job.model.norm_epsilon, 1e-6);
  EXPECT_EQ(job.model.activation, Activation::relu);
  EXPECT_EQ(job.model.rotary_base, 50000);
  EXPECT_EQ(job.model.positions, Positions::alibi);
  EXPECT_EQ(job.model.initialisation.method, InitMethod::small);
  EXPECT_EQ(job.model.initialisation.output_method, InitMethod::wang);
  EXPECT_EQ(job.model.initialisation.deviation, 0.01);
  EXPECT_EQ(recipe.not_honoured, Notes{});
}

TEST(TrainingKeys, LossScalingIsThatOfTheFile) {
  const LossScaling scaling = neox(
                                  "fp16: {enabled: true, loss_scale: 0, loss_scale_window: 500, "
                                  "initial_scale_power: 12, hysteresis: 3, "
                                  "min_loss_scale: 2}\n")
                                  ->recipe.loss_scaling;
  EXPECT_EQ(scaling.fixed, 0);
  EXPECT_EQ(scaling.window, 500);
  EXPECT_EQ(scaling.initial, 4096);
  EXPECT_EQ(scaling.hysteresis, 3);
  EXPECT_EQ(scaling.minimum, 2);
}

TEST(TrainingKeys, GptNeoxDecidesWhatItsFilesLeaveOpen) {  // neox_args.py and OPT_PARAMS_DEFAULT
  const TrainingRecipe recipe = neox("train_iters: 90\nlr_decay_fraction: 0.5\n")->recipe;
  EXPECT_EQ(recipe.learning_rate, 1e-3);
  EXPECT_EQ(recipe.beta2, 0.999);
  EXPECT_EQ(recipe.decay, DecayStyle::linear);
  EXPECT_EQ(recipe.decay_iterations, 45);
  EXPECT_EQ(recipe.warmup_fraction, 0.01);
  EXPECT_EQ(recipe.weight_decay, 0.01);
  EXPECT_EQ(recipe.min_learning_rate, 0.0);
}

TEST(TrainingKeys, TheFusedGeluOfGptNeoxIsTheApproximation) {
  EXPECT_EQ(neox("")->model.activation, Activation::gelu);
  EXPECT_EQ(neox("bias_gelu_fusion: true\n")->model.activation, Activation::gelu_tanh);
  EXPECT_EQ(neox("bias_gelu_fusion: true\nactivation: mish\n")->model.activation, Activation::mish);
}

TEST(TrainingKeys, WhatTheTrainerDoesNotHaveIsNamed) {
  EXPECT_EQ(
      neox("attention_dropout: 0.1\nhidden_dropout: 0\nuse_mup: true\noptimizer: {type: Lion, params: {lr: "
           "1.0e-4}}\n"
           "init_method: orthogonal\nattention_config: [[[\"local\"], 4]]\nscheduler: {type: WarmupLR}\n")
          ->recipe.not_honoured,
      (Notes{"optimizer.type=Lion (AdamW)", "scheduler={…} (the schedule of --lr and --warmup)",
             "init_method=orthogonal (normal)", "attention_config=local (full attention)",
             "attention_dropout=0.1 (no dropout)", "use_mup=true (no mu-parametrisation)"}));
  EXPECT_EQ(neox("sliding_window_width: 16\n")->recipe.attention_window->tokens, 16);
}

TEST(TrainingKeys, NumbersOutOfRangeAreRefused) {
  EXPECT_EQ(neox("warmup: 2\n").error().message, "m.yml:6: 'warmup' is 2; it must be from 0 to 1");
  EXPECT_EQ(neox("optimizer: {params: {betas: [0.9]}}\n").error().message,
            "m.yml:6: 'betas' must be two numbers from 0 to below 1");
  EXPECT_EQ(neox("layernorm_epsilon: small\n").error().message,
            "m.yml:6: 'layernorm_epsilon' must be a number, it is 'small'");
}

TEST(TrainingKeys, OfHuggingFaceAreHonouredOrNamed) {
  const auto read = [](const std::string& name) {
    return job_from_hf(parse_json(name, k_hugging_face.at(name)).value()).value();
  };
  const Job gpt2 = read("gpt2");
  EXPECT_EQ(gpt2.model.activation, Activation::gelu_tanh);
  EXPECT_EQ(gpt2.model.initialisation.output_method, InitMethod::scaled_normal);
  EXPECT_EQ(gpt2.recipe.not_honoured, (Notes{"attn_pdrop=0.1 (no dropout)", "embd_pdrop=0.1 (no dropout)",
                                             "resid_pdrop=0.1 (no dropout)"}));
  const Job pythia = read("pythia-70m");
  EXPECT_EQ(pythia.model.activation, Activation::gelu);
  EXPECT_EQ(pythia.model.initialisation.output_method, InitMethod::normal);
  EXPECT_EQ(pythia.model.rotary_fraction, 0.25);
  EXPECT_EQ(pythia.recipe.not_honoured, Notes{});
  EXPECT_EQ(read("mistral-7b").recipe.attention_window->tokens, 4096);
  EXPECT_EQ(read("mixtral-8x7b").model.rotary_base, 1e6);
  EXPECT_EQ(read("a configuration of transformers 5").model.rotary_fraction, 0.25);
}

TEST(TrainingKeys, OfMegatronAreHonouredOrNamed) {
  const auto read = [](const std::string& more) {
    return job_from_megatron(parse_megatron_arguments(
                                 "args.txt",
                                 "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
                                 "--max-position-embeddings 32 --micro-batch-size 1 --vocab-size 100 " +
                                     more)
                                 .value(),
                             0)
        .value();
  };
  const Job job = read(
      "--lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --lr-decay-iters 500 --lr-warmup-iters 20 "
      "--adam-beta2 0.95 "
      "--weight-decay 0.1 --init-method-std 0.006 --norm-epsilon 1e-6 --rotary-base 500000 --rotary-percent "
      "0.5 --seed 3 "
      "--position-embedding-type rope --attention-dropout 0 --hidden-dropout 0 --no-bias-gelu-fusion");
  EXPECT_EQ(job.recipe.learning_rate, 3e-4);
  EXPECT_EQ(job.recipe.decay_iterations, 500);
  EXPECT_EQ(job.recipe.warmup, 20);
  EXPECT_EQ(job.recipe.beta1, 0.9);
  EXPECT_EQ(job.recipe.beta2, 0.95);
  EXPECT_EQ(job.recipe.seed, 3);
  EXPECT_EQ(job.model.initialisation.deviation, 0.006);
  EXPECT_EQ(job.model.norm_epsilon, 1e-6);
  EXPECT_EQ(job.model.rotary_base, 500000);
  EXPECT_EQ(job.model.rotary_fraction, 0.5);
  EXPECT_EQ(job.model.activation, Activation::gelu);
  EXPECT_EQ(job.recipe.not_honoured, Notes{});
  const Job other = read("--optimizer sgd --lr-decay-style WSD --hidden-dropout 0 --train-samples 1000");
  EXPECT_EQ(other.model.activation, Activation::gelu_tanh);
  EXPECT_EQ(other.recipe.not_honoured,
            (Notes{"attention_dropout=0.1, the default (no dropout)", "optimizer=sgd (AdamW)",
                   "lr_decay_style=WSD (linear)", "train_samples=1000 (--iterations)"}));
}

TEST(TrainingKeys, StandInTheDocumentation) {
  const std::string page = read_text_file(source_directory() / "docs" / "training.md", 1 << 20).value();
  for (const TrainingKeys* const source : k_sources) {
    const TrainingKeys& keys = *source;
    for (const std::string& key : words_of(keys.honoured)) {
      EXPECT_NE(page.find("`" + key + "`"), std::string::npos) << key;
    }
    for (const UnhonouredKey& key : keys.warned) {
      EXPECT_NE(page.find("`" + std::string(key.name) + "`"), std::string::npos) << key.name;
    }
  }
}

}  // namespace
}  // namespace commlens
