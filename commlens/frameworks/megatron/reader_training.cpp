// Precision, gradients, recomputation and the training loop, as arguments of Megatron have them.
#include <string>
#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/reader_parts.hpp"
#include "commlens/frameworks/recipe_reader.hpp"
#include "commlens/frameworks/training_keys.hpp"

namespace commlens::megatron {
namespace {

constexpr double k_largest_beta = 1 - 1e-9;

/// A setting that an argument switches off.
void read_switched_off(MapReader& arguments, std::string_view key, bool& setting) {
  bool is_off = !setting;
  arguments.read(key, is_off);
  setting = !is_off;
}

void read_buckets(MapReader& arguments, Options& own) {
  arguments.read("ddp_bucket_size", own.bucket_size, 0);
  arguments.read("ddp_num_buckets", own.buckets, 0);
  arguments.read("ddp_pad_buckets_for_high_nccl_busbw", own.pads_buckets);
  arguments.read("ddp_average_in_collective", own.averages_in_collective);
  arguments.read("ddp_reduce_scatter_with_fp32_accumulation", own.scatters_by_all_to_all);
}

/// Megatron's and PyTorch's own sharding of parameters.
void read_sharding(MapReader& arguments, Job& job) {
  Options& own = options(job);
  arguments.read("use_megatron_fsdp", own.is_megatron_fsdp);
  Sharding sharding = Sharding::optim_grads_params;
  arguments.choose("data_parallel_sharding_strategy",
                   {{"no_shard", Sharding::no_shard},
                    {"optim", Sharding::optim},
                    {"optim_grads", Sharding::optim_grads},
                    {"optim_grads_params", Sharding::optim_grads_params}},
                   sharding);
  own.sharding = own.is_megatron_fsdp ? sharding : Sharding::no_shard;
  job.train.zero_stage = own.is_megatron_fsdp ? 1 : job.train.zero_stage;  // arguments.py switches it on
  arguments.read("use_torch_fsdp2", own.is_torch_fsdp2);
}

/// What decides the numbers of a layer.
void read_layer_numbers(MapReader& arguments, Job& job) {
  ModelConfig& model = job.model;
  read_within(arguments, "norm_epsilon", {}, model.norm_epsilon);
  read_within(arguments, "rotary_percent", {0, 1}, model.rotary_fraction);
  read_within(arguments, "rotary_base", {1, 1e12}, model.rotary_base);
  read_within(arguments, "init_method_std", {}, model.initialisation.deviation);
  bool xavier = false;
  arguments.read("init_method_xavier_uniform", xavier);
  model.initialisation.method = xavier ? InitMethod::xavier_uniform : InitMethod::normal;
  bool is_not_fused = false;
  bool is_exact = false;
  bool is_tanh = false;
  arguments.read("no_bias_gelu_fusion", is_not_fused);
  arguments.read("onnx_safe", is_exact);
  arguments.read("openai_gelu", is_tanh);
  // The fused kernel is the approximation; without biases there is none.
  const bool is_fused = !is_not_fused && !is_exact && model.linear_bias;
  model.activation = is_tanh || is_fused ? Activation::gelu_tanh : Activation::gelu;
  for (const std::string_view key : {"attention_dropout", "hidden_dropout"}) {
    if (!arguments.has(key)) {
      job.recipe.not_honoured.push_back(not_honoured_text(key, "0.1, the default", "no dropout"));
    }
  }
}

/// fp16: DynamicGradScaler of megatron/core/optimizer/grad_scaler.py, which works as DeepSpeed's.
void read_scaling(MapReader& arguments, LossScaling& scaling) {
  constexpr double largest = 1e30;
  scaling.initial = 4294967296.0;
  read_within(arguments, "loss_scale", {0, largest}, scaling.fixed);
  read_within(arguments, "initial_loss_scale", {0, largest}, scaling.initial);
  read_within(arguments, "min_loss_scale", {0, largest}, scaling.minimum);
  arguments.read("loss_scale_window", scaling.window);
  arguments.read("hysteresis", scaling.hysteresis);
}

}  // namespace

void read_precision(MapReader& arguments, Job& job) {
  bool fp16 = false;
  bool bf16 = false;
  arguments.read("fp16", fp16);
  arguments.read("bf16", bf16);
  if (fp16 && bf16) {
    arguments.fail("fp16", "and bf16 are both on; leave one out");
  }
  if (fp16) {
    job.train.dtype = DType::fp16;
  } else if (bf16) {
    job.train.dtype = DType::bf16;
  }
  Options& own = options(job);
  arguments.read("accumulate_allreduce_grads_in_fp32", own.gradients_in_fp32);
  bool reduces_in_bf16 = false;
  bool keeps_bf16 = false;
  arguments.read("grad_reduce_in_bf16", reduces_in_bf16);
  arguments.choose("main_grads_dtype", {{"fp32", false}, {"bf16", true}}, keeps_bf16);
  own.gradients_in_bf16 = reduces_in_bf16 || (keeps_bf16 && !own.gradients_in_fp32);
  own.gradients_in_fp32 = own.gradients_in_fp32 && !(bf16 && reduces_in_bf16);
}

void read_gradients(MapReader& arguments, Job& job) {
  Options& own = options(job);
  arguments.read("micro_batch_size", job.train.micro_batch);
  job.train.micro_batches = 1;  // without a global batch Megatron takes one micro-batch
  arguments.read("global_batch_size", job.global_batch);
  if (job.global_batch > 0) {
    job.train.micro_batches = 0;
  }
  job.train.gradient_clipping = 1.0;
  arguments.read("clip_grad", job.train.gradient_clipping);
  std::string optimizer = "adam";
  arguments.read("optimizer", optimizer);
  own.is_muon = optimizer == "muon" || optimizer == "dist_muon";
  if (!own.is_muon && optimizer != "adam" && optimizer != "sgd") {
    arguments.skip("optimizer");
  }
  bool distributed_optimizer = false;
  arguments.read("use_distributed_optimizer", distributed_optimizer);
  job.train.zero_stage = distributed_optimizer || optimizer == "dist_muon" ? 1 : 0;
  read_switched_off(arguments, "no_use_layer_wise_param_layout", own.has_layer_wise_layout);
  arguments.read("overlap_grad_reduce", own.overlap_grad_reduce);
  read_switched_off(arguments, "no_align_grad_reduce", own.aligns_grad_reduce);
  arguments.read("overlap_param_gather", own.overlap_param_gather);
  read_switched_off(arguments, "no_align_param_gather", own.aligns_param_gather);
  arguments.read("overlap_param_gather_with_optimizer_step", own.gathers_with_step);
  arguments.read("data_parallel_random_init", own.broadcasts_parameters);
  arguments.read("calculate_per_token_loss", own.counts_tokens);
  read_buckets(arguments, own);
  read_sharding(arguments, job);
}

void read_recompute(MapReader& arguments, Job& job) {
  Options& own = options(job);
  bool selective = false;
  bool recomputes_experts = false;
  arguments.read("recompute_activations", selective);
  arguments.read("moe_layer_recompute", recomputes_experts);
  Recompute recompute = selective ? Recompute::selective : Recompute::none;
  arguments.choose("recompute_granularity", {{"full", Recompute::full}, {"selective", Recompute::selective}},
                   recompute);
  if (const std::vector<std::string> modules = read_words(arguments, "recompute_modules"); !modules.empty()) {
    own.recompute_modules = modules;
  }
  if (recomputes_experts) {  // transformer_config.py maps the older argument so
    recompute = Recompute::selective;
    own.recompute_modules.emplace_back("moe");
  }
  set_recompute(job, recompute);
  arguments.choose<std::string>("recompute_method", {{"uniform", "uniform"}, {"block", "block"}},
                                own.recompute_method);
  arguments.read("recompute_num_layers", own.recompute_num_layers);
  arguments.read("distribute_saved_activations", job.train.partition_activations);
}

void read_loop(MapReader& arguments, Job& job) {
  Options& own = options(job);
  read_switched_off(arguments, "no_create_attention_mask_in_dataloader", own.has_attention_mask);
  arguments.choose<std::string>(
      "rerun_mode",
      {{"disabled", "disabled"}, {"validate_results", "validate_results"}, {"report_stats", "report_stats"}},
      own.rerun_mode);
  arguments.read("log_interval", own.log_interval);
  arguments.choose("timing_log_level", {{"0", 0}, {"1", 1}, {"2", 2}}, own.timing_level);
  read_switched_off(arguments, "no_barrier_with_level_1_timing", own.barriers_at_level1);
  arguments.read("log_params_norm", own.logs_params_norm);
  arguments.read("log_num_zeros_in_grad", own.logs_zeros);
  arguments.read("exit_signal_handler", own.handles_signals);
  arguments.read("exit_duration_in_mins", own.exit_minutes);
  arguments.read("eval_interval", own.eval_interval);
  arguments.read("eval_iters", own.eval_iterations, -1);
  if (own.eval_iterations < 0) {  // the whole set, of a length that is not known
    arguments.skip("eval_iters");
    own.eval_iterations = 0;
  }
  arguments.read("log_timers_to_tensorboard", own.writes_timers);
  if (const ConfigNode* const interval = arguments.node("save_interval");
      interval != nullptr && arguments.has("save")) {
    own.save_interval = static_cast<std::int64_t>(as_number(*interval).value_or(0));
  }
}

void read_recipe(MapReader& arguments, Job& job) {
  read_layer_numbers(arguments, job);
  TrainingRecipe& recipe = job.recipe;
  recipe.beta1 = 0.9;
  recipe.beta2 = 0.999;
  recipe.weight_decay = 0.01;
  recipe.min_learning_rate = 0;
  recipe.decay = DecayStyle::linear;
  recipe.warms_up_from_zero = true;
  std::string optimizer;
  arguments.read("optimizer", optimizer);
  note_other_optimizer("optimizer", optimizer, recipe);
  read_within(arguments, "lr", {}, recipe.learning_rate);
  read_within(arguments, "min_lr", {}, recipe.min_learning_rate);
  read_within(arguments, "adam_beta1", {0, k_largest_beta}, recipe.beta1);
  read_within(arguments, "adam_beta2", {0, k_largest_beta}, recipe.beta2);
  read_within(arguments, "adam_eps", {}, recipe.epsilon);
  read_within(arguments, "weight_decay", {}, recipe.weight_decay);
  read_within(arguments, "lr_warmup_iters", {0, 1e9}, recipe.warmup);
  read_within(arguments, "lr_warmup_fraction", {0, 1}, recipe.warmup_fraction);
  read_decay(arguments, "lr_decay_style", recipe);
  std::int64_t iterations = 0;
  arguments.read("train_iters", iterations);
  read_decay_end_and_seed(arguments, iterations, recipe);
  read_scaling(arguments, recipe.loss_scaling);
}

}  // namespace commlens::megatron
