#include "commlens/plan/setting_changes.hpp"

#include <array>
#include <functional>

#include <fmt/format.h>

#include "commlens/model/framework_options.hpp"

namespace commlens {
namespace {

/// Gathers changed jobs that could run.
class Changes {
 public:
  explicit Changes(const Job& job) : job_(job) {}

  void add(std::string_view setting, std::string value, const std::function<void(Job&)>& change) {
    Job changed = job_;
    change(changed);
    if (Result<Job> job = validated(std::move(changed))) {
      changes_.push_back({std::string(setting), std::move(value), std::move(*job)});
    }
  }

  /// The other value of a switch.
  template <typename Options>
  void toggle(std::string_view setting, Options Job::* options, bool Options::* member) {
    const bool value = !(job_.*options.*member);
    add(setting, value ? "true" : "false", [&](Job& job) { job.*options.*member = value; });
  }

  /// A limit in elements, the likelier values first: they win when several explain the same.
  template <typename Options>
  void limits(std::string_view setting, Options Job::* options, std::int64_t Options::* member,
              const std::vector<std::int64_t>& values) {
    for (const std::int64_t value : values) {
      if (value != job_.*options.*member) {
        add(setting, fmt::format("{}", value), [&](Job& job) { job.*options.*member = value; });
      }
    }
  }

  std::vector<SettingChange> take() { return std::move(changes_); }
  const Job& job() const { return job_; }

 private:
  const Job& job_;
  std::vector<SettingChange> changes_;
};

/// `first`, then 1, 2 and 5 times the powers of ten that limits are written in.
std::vector<std::int64_t> round_numbers(std::vector<std::int64_t> first = {}) {
  for (std::int64_t power = 1000; power <= 1'000'000'000; power *= 10) {
    for (const std::int64_t factor : {1, 2, 5}) {
      first.push_back(power * factor);
    }
  }
  return first;
}

void add_shared(Changes& changes) {
  const Job& job = changes.job();
  for (int stage = 0; stage <= 3; ++stage) {
    if (stage != job.train.zero_stage) {
      changes.add("zero stage", fmt::format("{}", stage), [&](Job& other) { set_zero_stage(other, stage); });
    }
  }
  constexpr std::array<std::int64_t, 6> micro_batches = {1, 2, 4, 8, 16, 32};
  for (const std::int64_t count : micro_batches) {
    if (count != job.train.micro_batches) {
      changes.add("micro-batches", fmt::format("{}", count),
                  [&](Job& other) { other.train.micro_batches = count; });
    }
  }
  for (const std::int64_t factor : {2, 4, 8}) {
    const std::int64_t larger = job.train.micro_batch * factor;
    changes.add("micro-batch size", fmt::format("{}", larger),
                [&](Job& other) { other.train.micro_batch = larger; });
    if (job.train.micro_batch % factor == 0) {
      const std::int64_t smaller = job.train.micro_batch / factor;
      changes.add("micro-batch size", fmt::format("{}", smaller),
                  [&](Job& other) { other.train.micro_batch = smaller; });
    }
  }
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    if (dtype != job.train.dtype) {
      changes.add("precision", std::string(name_of(dtype)), [&](Job& other) { other.train.dtype = dtype; });
    }
  }
  const bool recomputes = job.train.recompute == Recompute::full;
  changes.add("checkpoint activations", recomputes ? "false" : "true",
              [&](Job& other) { set_recompute(other, recomputes ? Recompute::none : Recompute::full); });
  const bool clips = job.train.gradient_clipping > 0;
  changes.add("gradient clipping", clips ? "0" : "1",
              [&](Job& other) { other.train.gradient_clipping = clips ? 0.0 : 1.0; });
}

void add_model(Changes& changes) {
  const Job& job = changes.job();
  changes.toggle("tied embeddings", &Job::model, &ModelConfig::tied_embeddings);
  changes.toggle("parallel residual", &Job::model, &ModelConfig::parallel_residual);
  changes.add("positions", job.model.positions == Positions::learned ? "rotary" : "learned", [&](Job& other) {
    other.model.positions =
        job.model.positions == Positions::learned ? Positions::rotary : Positions::learned;
  });
  const std::int64_t raw = job.model.raw_vocab > 0 ? job.model.raw_vocab : job.model.vocab;
  for (const std::int64_t vocab : {raw, round_up(raw, 128 * job.layout.tp)}) {
    if (vocab != job.model.vocab) {
      changes.add("padded vocabulary", fmt::format("{}", vocab), [&](Job& other) {
        other.model.vocab = vocab;
        other.model.vocab_is_padded = true;
      });
    }
  }
}

void add_zero(Changes& changes, const std::vector<std::int64_t>& limits) {
  using Options = DeepSpeedOptions;
  changes.toggle("reduce_scatter", &Job::deepspeed, &Options::reduce_scatter);
  changes.toggle("use_multi_rank_bucket_allreduce", &Job::deepspeed,
                 &Options::use_multi_rank_bucket_allreduce);
  changes.toggle("overlap_comm", &Job::deepspeed, &Options::overlap_comm);
  changes.toggle("round_robin_gradients", &Job::deepspeed, &Options::round_robin_gradients);
  changes.toggle("contiguous_gradients", &Job::deepspeed, &Options::contiguous_gradients);
  changes.toggle("parameter groups by weight decay", &Job::deepspeed, &Options::weight_decay_groups);
  changes.limits("reduce_bucket_size", &Job::deepspeed, &Options::reduce_bucket_size, limits);
  const bool in_fp32 = changes.job().deepspeed.grad_accumulation_dtype == DType::fp32;
  changes.add("grad_accum_dtype", in_fp32 ? "the model's" : "fp32", [&](Job& job) {
    job.deepspeed.grad_accumulation_dtype = in_fp32 ? std::nullopt : std::optional<DType>(DType::fp32);
  });
  if (changes.job().train.zero_stage < 3) {
    return;
  }
  changes.toggle("zero.Init", &Job::deepspeed, &Options::zero_init);
  const std::vector<std::int64_t> small = round_numbers({0, 100, 200, 500});
  changes.limits("stage3_param_persistence_threshold", &Job::deepspeed, &Options::param_persistence_threshold,
                 small);
  changes.limits("stage3_prefetch_bucket_size", &Job::deepspeed, &Options::prefetch_bucket_size, small);
  changes.limits("stage3_max_live_parameters", &Job::deepspeed, &Options::max_live_parameters, small);
  changes.limits("stage3_max_reuse_distance", &Job::deepspeed, &Options::max_reuse_distance, small);
  changes.limits("sub_group_size", &Job::deepspeed, &Options::sub_group_size, round_numbers());
  for (std::int64_t ranks = 1; ranks <= changes.job().layout.dp; ranks *= 2) {
    if (ranks != changes.job().deepspeed.hpz_partition_size) {
      changes.add("zero_hpz_partition_size", fmt::format("{}", ranks),
                  [&](Job& job) { job.deepspeed.hpz_partition_size = ranks; });
    }
  }
}

void add_pipeline(Changes& changes) {
  using Options = DeepSpeedOptions;
  changes.toggle("attention mask in sends", &Job::deepspeed, &Options::attention_mask);
  changes.toggle("pipe_partitioned", &Job::deepspeed, &Options::pipe_partitioned);
  changes.toggle("grad_partitioned", &Job::deepspeed, &Options::grad_partitioned);
  changes.add("pipe_partitioned and grad_partitioned",
              changes.job().deepspeed.pipe_partitioned ? "false" : "true", [&](Job& job) {
                const bool value = !changes.job().deepspeed.pipe_partitioned;
                job.deepspeed.pipe_partitioned = value;
                job.deepspeed.grad_partitioned = value;
              });
  const bool is_neox = changes.job().framework == Framework::neox;
  for (const char* method : {"parameters", "uniform", "type:transformer|mlp"}) {
    changes.add("pipeline partition method", method, [&](Job& job) {
      (is_neox ? job.neox.partition_method : job.deepspeed.partition_method) = method;
    });
  }
}

void add_neox(Changes& changes) {
  changes.toggle("partition_activations", &Job::neox, &NeoxOptions::partition_activations);
  changes.toggle("fp32_allreduce", &Job::neox, &NeoxOptions::fp32_allreduce);
  changes.toggle("fp16_lm_cross_entropy", &Job::neox, &NeoxOptions::fp16_lm_cross_entropy);
}

void add_deepspeed(Changes& changes, const std::vector<std::int64_t>& limits) {
  add_zero(changes, limits);
  if (changes.job().layout.pp > 1) {
    add_pipeline(changes);
  }
  if (changes.job().framework == Framework::neox) {
    add_neox(changes);
  } else {
    changes.toggle("partition_activations", &Job::deepspeed, &DeepSpeedOptions::partition_activations);
  }
}

void add_megatron(Changes& changes) {
  using Options = MegatronOptions;
  changes.toggle("accumulate-allreduce-grads-in-fp32", &Job::megatron, &Options::gradients_in_fp32);
  changes.toggle("distribute-saved-activations", &Job::megatron, &Options::distribute_saved_activations);
  changes.toggle("variable-seq-lengths", &Job::megatron, &Options::variable_seq_lengths);
  changes.toggle("overlap-grad-reduce", &Job::megatron, &Options::overlap_grad_reduce);
  const bool parallel = changes.job().layout.sequence_parallel;
  changes.add("sequence-parallel", parallel ? "false" : "true",
              [&](Job& job) { job.layout.sequence_parallel = !parallel; });
}

constexpr std::array<std::int64_t, 7> k_bucket_mebibytes = {1, 5, 10, 25, 50, 100, 200};

void add_torch_ddp(Changes& changes) {
  changes.toggle("static_graph", &Job::ddp, &DdpOptions::static_graph);
  for (const std::int64_t size : k_bucket_mebibytes) {
    const Bytes cap{size << 20};
    if (cap != changes.job().ddp.bucket_cap) {
      changes.add("bucket_cap_mb", fmt::format("{}", size), [&](Job& job) { job.ddp.bucket_cap = cap; });
    }
  }
}

void add_commlens(Changes& changes) {
  using Options = CommlensOptions;
  changes.toggle("--deepspeed-like", &Job::commlens, &Options::deepspeed_like);
  changes.toggle("--partition-activations", &Job::commlens, &Options::partition_activations);
  changes.toggle("--qwz", &Job::commlens, &Options::quantized_weights);
  changes.toggle("--qgz", &Job::commlens, &Options::quantized_gradients);
  changes.limits("--persistence-threshold", &Job::commlens, &Options::persistence_threshold,
                 round_numbers({0, 100, 200, 500}));
  for (const std::int64_t size : k_bucket_mebibytes) {
    const Bytes bucket{size << 20};
    if (bucket != changes.job().commlens.bucket) {
      changes.add("--bucket", fmt::format("{}MiB", size), [&](Job& job) { job.commlens.bucket = bucket; });
    }
  }
}

}  // namespace

std::vector<SettingChange> setting_changes(const Job& job, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> limits = round_numbers();
  limits.insert(limits.end(), sizes.begin(), sizes.end());
  Changes changes(job);
  switch (job.framework) {
    case Framework::deepspeed:
    case Framework::neox:
      add_deepspeed(changes, limits);
      break;
    case Framework::megatron:
      add_megatron(changes);
      break;
    case Framework::torch_ddp:
      add_torch_ddp(changes);
      break;
    case Framework::commlens:
      add_commlens(changes);
      break;
    case Framework::paper:
      return {};
  }
  add_shared(changes);
  add_model(changes);
  return changes.take();
}

}  // namespace commlens
