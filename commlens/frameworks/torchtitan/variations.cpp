// The settings of torchtitan that make two runs of a model differ. The first of several that explain the same
// is named: what is special comes before what changes more, the value that torchtitan has by default first.
#include "commlens/frameworks/torchtitan/variations.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/schedules.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"
#include "commlens/frameworks/torchtitan/settings.hpp"

namespace commlens::torchtitan {
namespace {

template <typename Value>
using Named = std::pair<std::string_view, Value>;

/// The other values of a setting; `member` finds it in a job.
template <typename Value, std::size_t Count, typename Member>
void add_choice(Variations& variations, std::string_view key, const std::array<Named<Value>, Count>& values,
                const Member& member) {
  Job job = variations.job();
  const Value now = member(job);
  for (const auto& [name, value] : values) {
    if (!(now == value)) {
      variations.add(key, std::string(name), [&, chosen = value](Job& other) { member(other) = chosen; });
    }
  }
}

void add_seed(Variations& variations) {
  const bool has_seed = options(variations.job()).seed.has_value();
  variations.add("debug.seed", has_seed ? "None" : "1", [&](Job& job) {
    options(job).seed = has_seed ? std::nullopt : std::optional<std::int64_t>(1);
  });
}

void add_log(Variations& variations) {
  variations.limits("metrics.log_freq", [](Job& job) -> std::int64_t& { return options(job).log_frequency; },
                    {10, 1, 2, 3, 4, 5, 20, 25, 50, 100});
}

void add_loss(Variations& variations) {
  const std::int64_t now = options(variations.job()).loss_chunks;
  if (now > 0) {
    variations.add("loss.chunked", "false", [](Job& job) { options(job).loss_chunks = 0; });
  }
  for (const std::int64_t chunks : {8, 1, 2, 4, 16, 32, 64}) {
    if (chunks != now) {
      variations.add("loss.num_chunks", fmt::format("{}", chunks),
                     [&](Job& job) { options(job).loss_chunks = chunks; });
    }
  }
}

/// Selective and full recomputation send the same: what is saved is not what sends.
void add_recompute(Variations& variations) {
  const Recompute now = variations.job().train.recompute;
  for (const auto& [name, mode] :
       {std::pair("none", Recompute::none), std::pair("selective", Recompute::selective),
        std::pair("full", Recompute::full)}) {
    if (mode != now) {
      variations.add("activation_checkpoint.mode", name,
                     [&, chosen = mode](Job& job) { set_recompute(job, chosen); });
    }
  }
}

void add_dtypes(Variations& variations) {
  constexpr std::array<Named<DType>, 2> dtypes = {{{"float32", DType::fp32}, {"bfloat16", DType::bf16}}};
  add_choice(variations, "training.mixed_precision_param", dtypes,
             [](Job& job) -> auto& { return options(job).param_dtype; });
  add_choice(variations, "training.dtype", dtypes, [](Job& job) -> auto& { return job.train.dtype; });
}

void add_sharding(Variations& variations) {
  add_choice(variations, "parallelism.fsdp_reshard_after_forward",
             std::array<Named<Reshard>, 3>{
                 {{"default", Reshard::by_default}, {"always", Reshard::always}, {"never", Reshard::never}}},
             [](Job& job) -> auto& { return options(job).reshard_after_forward; });
  constexpr std::int64_t most_replicas = 4096;
  const Job& job = variations.job();
  for (std::int64_t replicas = 1; replicas <= std::min(job.layout.dp, most_replicas); ++replicas) {
    const bool is_usual = (replicas & (replicas - 1)) == 0 || replicas == job.layout.dp;
    if (is_usual && job.layout.dp % replicas == 0 && replicas != options(job).replicate) {
      variations.add("parallelism.data_parallel_replicate_degree", fmt::format("{}", replicas),
                     [&](Job& other) { options(other).replicate = replicas; });
    }
  }
}

void add_tensor(Variations& variations) {
  if (variations.job().layout.tp == 1) {
    return;
  }
  const bool splits = !variations.job().layout.sequence_parallel;
  variations.add("parallelism.enable_sequence_parallel", splits ? "true" : "false", [&](Job& job) {
    options(job).splits_sequence = splits;
    job.layout.sequence_parallel = splits;
  });
}

void add_model(Variations& variations) {
  variations.toggle("fused_qkv", [](Job& job) -> bool& { return options(job).fuses_qkv; });
}

void add_experts(Variations& variations) {
  const Job& job = variations.job();
  if (job.model.experts == 0) {
    return;
  }
  const bool balances = options(job).balances_experts;
  variations.add("load_balance_coeff", balances ? "0" : "0.001",
                 [&](Job& other) { options(other).balances_experts = !balances; });
  variations.toggle("debug.moe_force_load_balance",
                    [](Job& other) -> bool& { return options(other).forces_balance; });
  if (job.layout.ep > 1) {
    add_choice(variations, "dispatcher",
               std::array<Named<Dispatcher>, 4>{{{"all_to_all", Dispatcher::all_to_all},
                                                 {"deepep", Dispatcher::deepep},
                                                 {"hybridep", Dispatcher::hybridep},
                                                 {"minimal_async_ep", Dispatcher::minimal_async_ep}}},
               [](Job& other) -> auto& { return options(other).dispatcher; });
  }
  for (const std::int64_t degree : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
    if (degree != job.layout.ep && degree <= job.layout.ranks && job.model.experts % degree == 0) {
      variations.add("parallelism.expert_parallel_degree", fmt::format("{}", degree),
                     [&](Job& other) { other.layout.ep = degree; });
    }
  }
}

void change_schedule(Job& job, pytorch::PipelineSchedule schedule) {
  options(job).schedule = schedule;
  job.train.schedule = pytorch::usual_schedule(schedule);
}

void add_schedules(Variations& variations) {
  using Schedule = pytorch::PipelineSchedule;
  constexpr std::array<Named<Schedule>, 7> schedules = {
      {{"1F1B", Schedule::one_f_one_b},
       {"GPipe", Schedule::gpipe},
       {"Interleaved1F1B", Schedule::interleaved_1f1b},
       {"LoopedBFS", Schedule::looped_bfs},
       {"InterleavedZeroBubble", Schedule::interleaved_zero_bubble},
       {"ZBVZeroBubble", Schedule::zbv_zero_bubble},
       {"DualPipeV", Schedule::dual_pipe_v}}};
  const Schedule now = options(variations.job()).schedule;
  for (const auto& [name, schedule] : schedules) {
    if (schedule != now) {
      variations.add("parallelism.pipeline_parallel_schedule", std::string(name),
                     [chosen = schedule](Job& job) { change_schedule(job, chosen); });
    }
  }
}

/// Which layers are on which stage.
void add_stages(Variations& variations) {
  const Job& job = variations.job();
  const Options& own = options(job);
  for (const std::int64_t layers : {1, 2, 3, 4, 6, 8, 12, 16}) {
    const std::optional<std::int64_t> stages = stages_per_rank(
        {job.model.layers, own.first_stage_less_layers, own.last_stage_less_layers, layers}, job.layout.pp);
    if (stages && *stages > 1 && *stages != job.layout.virtual_stages) {
      variations.add("parallelism.pipeline_parallel_layers_per_stage", fmt::format("{}", layers),
                     [&](Job& other) {
                       options(other).layers_per_stage = layers;
                       other.layout.virtual_stages = *stages;
                     });
    }
  }
  const std::vector<std::int64_t> less = {1, 0, 2, 3, 4};
  variations.limits(
      "parallelism.pipeline_parallel_first_stage_less_layers",
      [](Job& other) -> std::int64_t& { return options(other).first_stage_less_layers; }, less);
  variations.limits(
      "parallelism.pipeline_parallel_last_stage_less_layers",
      [](Job& other) -> std::int64_t& { return options(other).last_stage_less_layers; }, less);
}

/// Gives a job this local batch, cut for its pipeline, and as many sequences in a step as `passes` of it.
void set_batches(Job& job, std::int64_t local_batch, std::int64_t passes) {
  Options& own = options(job);
  own.local_batch = local_batch;
  job.global_batch = saturating_product(saturating_product(local_batch, job.layout.dp), passes);
  job.train.micro_batch = job.layout.pp > 1 ? own.pipeline_micro_batch : local_batch;
  job.train.micro_batches = 0;  // what follows
}

void add_batches(Variations& variations) {
  const Job& job = variations.job();
  const Options& own = options(job);
  const std::int64_t passes = job.layout.pp > 1 ? own.accumulation_steps : job.train.micro_batches;
  for (const std::int64_t count : {1, 2, 3, 4, 6, 8, 16, 32}) {
    if (count != passes) {
      const std::int64_t all = saturating_product(saturating_product(own.local_batch, job.layout.dp), count);
      variations.add("training.global_batch_size", fmt::format("{}", all),
                     [&](Job& other) { set_batches(other, own.local_batch, count); });
    }
  }
  for (const std::int64_t batch : {1, 2, 3, 4, 6, 8, 16, 32, 64}) {
    const bool is_cut = job.layout.pp == 1 || batch % own.pipeline_micro_batch == 0;
    if (batch != own.local_batch && is_cut) {
      variations.add("training.local_batch_size", fmt::format("{}", batch),
                     [&](Job& other) { set_batches(other, batch, passes); });
    }
  }
  for (const std::int64_t size : {1, 2, 4, 8, 16}) {
    const bool is_cut = job.layout.pp > 1 && own.local_batch % size == 0;
    if (is_cut && size != own.pipeline_micro_batch) {
      variations.add("parallelism.pipeline_parallel_microbatch_size", fmt::format("{}", size),
                     [&](Job& other) {
                       options(other).pipeline_micro_batch = size;
                       set_batches(other, own.local_batch, passes);
                     });
    }
  }
}

/// Other degrees of the same ranks; data ranks shard what remains.
void add_degrees(Variations& variations) {
  const Job& job = variations.job();
  const Options& own = options(job);
  const std::int64_t passes = job.layout.pp > 1 ? own.accumulation_steps : job.train.micro_batches;
  constexpr std::pair<std::string_view, std::int64_t ParallelLayout::*> degrees[] = {
      {"parallelism.tensor_parallel_degree", &ParallelLayout::tp},
      {"parallelism.context_parallel_degree", &ParallelLayout::cp},
      {"parallelism.pipeline_parallel_degree", &ParallelLayout::pp}};
  for (const auto& [key, member] : degrees) {
    const std::int64_t free = job.layout.dp / own.replicate * (job.layout.*member);
    for (const std::int64_t degree : {1, 2, 4, 8, 16}) {
      if (degree == job.layout.*member || free % degree != 0) {
        continue;
      }
      variations.add(key, fmt::format("{}", degree), [&, field = member](Job& other) {
        other.layout.*field = degree;
        other.layout.dp = own.replicate * free / degree;
        other.layout.sequence_parallel = own.splits_sequence && other.layout.tp > 1;
        set_batches(other, own.local_batch, passes);
      });
    }
  }
}

void add_checkpoints(Variations& variations) {
  const Checkpoints now = options(variations.job()).checkpoints;
  if (now.is_used) {
    variations.add("checkpoint.enable", "false", [](Job& job) { options(job).checkpoints.is_used = false; });
  }
  for (const std::int64_t interval : {500, 1, 2, 3, 4, 5, 10, 50, 100, 1000}) {
    if (!now.is_used) {
      variations.add("checkpoint.enable", fmt::format("true with interval {}", interval), [&](Job& job) {
        options(job).checkpoints.is_used = true;
        options(job).checkpoints.interval = interval;
      });
    } else if (interval != now.interval) {
      variations.add("checkpoint.interval", fmt::format("{}", interval),
                     [&](Job& job) { options(job).checkpoints.interval = interval; });
    }
  }
  if (now.is_used) {
    variations.toggle("checkpoint.enable_first_step_checkpoint",
                      [](Job& job) -> bool& { return options(job).checkpoints.saves_first_step; });
  }
}

/// Other releases of PyTorch, by the newest one that was recorded or read of each.
void add_releases(Variations& variations) {
  const KnownVersion& now = pytorch::behaviour(variations.job()).version;
  std::vector<KnownVersion> versions = pytorch::known_versions();
  std::reverse(versions.begin(), versions.end());
  for (const KnownVersion& version : versions) {
    if (version.name != now.name) {
      variations.add("torch_version", std::string(version.name),
                     [&](Job& job) { options(job).torch_version = version.last; });
    }
  }
}

}  // namespace

void add_variations(Variations& variations) {
  add_seed(variations);
  add_log(variations);
  add_loss(variations);
  add_recompute(variations);
  add_tensor(variations);
  add_experts(variations);
  add_dtypes(variations);
  add_sharding(variations);
  add_model(variations);
  if (variations.job().layout.pp > 1) {
    add_schedules(variations);
    add_stages(variations);
  }
  add_batches(variations);
  add_checkpoints(variations);
  add_degrees(variations);
  add_releases(variations);
}

}  // namespace commlens::torchtitan
