// The settings of PyTorch's parallel modules that make two runs of a model differ. The first of several that
// explain the same is named: what is special comes before what changes more.
#include "commlens/frameworks/torch/variations.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/frameworks/torch/schedules.hpp"

namespace commlens::pytorch {
namespace {

using Change = std::function<void(Job&)>;

constexpr std::array<DType, 3> k_dtypes = {DType::fp32, DType::bf16, DType::fp16};
constexpr std::string_view k_absent = "absent";

/// The other values of an optional type.
template <typename Member>
void add_dtype(Variations& variations, std::string_view key, const Member& member) {
  const auto has = [&](const std::optional<DType>& value) {
    Job job = variations.job();
    return member(job) == value;
  };
  if (!has(std::nullopt)) {
    variations.add(key, std::string(k_absent), [&](Job& job) { member(job) = std::nullopt; });
  }
  for (const DType dtype : k_dtypes) {
    if (!has(dtype)) {
      variations.add(key, std::string(name_of(dtype)), [&](Job& job) { member(job) = dtype; });
    }
  }
}

/// The other values of a list of names.
template <typename Value>
using Named = std::pair<std::string_view, Value>;
template <typename Value, std::size_t Count, typename Member>
void add_choice(Variations& variations, std::string_view key, const std::array<Named<Value>, Count>& values,
                const Member& member) {
  for (const auto& [name, value] : values) {
    Job job = variations.job();
    if (!(member(job) == value)) {
      variations.add(key, std::string(name), [&, chosen = value](Job& other) { member(other) = chosen; });
    }
  }
}

Bytes mebibytes(double count) { return Bytes{static_cast<std::int64_t>(count * 1024 * 1024)}; }

void add_buckets(Variations& variations) {
  constexpr std::array<double, 11> caps = {0.1, 0.25, 0.5, 1, 2, 5, 10, 25, 50, 100, 200};
  const Ddp& now = options(variations.job()).ddp;
  if (now.bucket_cap) {
    variations.add("bucket_cap_mb", std::string(k_absent),
                   [](Job& job) { options(job).ddp.bucket_cap.reset(); });
  }
  for (const double cap : caps) {
    if (now.bucket_cap != mebibytes(cap)) {
      variations.add("bucket_cap_mb", fmt::format("{}", cap),
                     [&](Job& job) { options(job).ddp.bucket_cap = mebibytes(cap); });
    }
  }
  if (!now.bucket_caps.empty()) {
    variations.add("bucket_cap_mb_list", std::string(k_absent),
                   [](Job& job) { options(job).ddp.bucket_caps.clear(); });
  }
  constexpr std::array<std::array<double, 3>, 6> lists = {
      {{1, 25, 25}, {0.5, 1, 2}, {1, 5, 25}, {1, 10, 25}, {5, 25, 25}, {1, 25, 100}}};
  for (const std::array<double, 3>& list : lists) {
    std::vector<Bytes> limits = {mebibytes(list[0]), mebibytes(list[1])};
    std::string text = fmt::format("[{}, {}", list[0], list[1]);
    if (list[2] > list[1]) {
      limits.push_back(mebibytes(list[2]));
      text += fmt::format(", {}", list[2]);
    }
    if (limits != now.bucket_caps) {
      variations.add("bucket_cap_mb_list", text + "]",
                     [&](Job& job) { options(job).ddp.bucket_caps = limits; });
    }
  }
}

/// One rank has an input less than the others, or none has.
void add_join(Variations& variations) {
  const Job& now = variations.job();
  const std::int64_t ranks = now.layout.dp;
  if (!options(now).ddp.join_inputs.empty()) {
    variations.add("join", std::string(k_absent), [](Job& job) { options(job).ddp.join_inputs.clear(); });
    return;
  }
  // What follows the last iteration counts as one more.
  for (const std::int64_t most : {now.iterations, now.iterations - 1}) {
    for (const std::int64_t first : {ranks - 1, std::int64_t{0}}) {
      std::vector<std::int64_t> inputs(static_cast<std::size_t>(ranks), most);
      --inputs[static_cast<std::size_t>(first)];
      if (most > 1) {
        variations.add("join", fmt::format("inputs [{}]", fmt::join(inputs, ", ")),
                       [&](Job& job) { options(job).ddp.join_inputs = inputs; });
      }
    }
  }
}

void add_ddp(Variations& variations) {
  const std::pair<std::string_view, bool Ddp::*> switches[] = {
      {"find_unused_parameters", &Ddp::find_unused_parameters},
      {"static_graph", &Ddp::static_graph},
      {"broadcast_buffers", &Ddp::broadcast_buffers},
      {"init_sync", &Ddp::init_sync},
      {"skip_all_reduce_unused_params", &Ddp::skip_all_reduce_unused_params},
      {"accumulation_sync", &Ddp::accumulation_sync}};
  for (const auto& [key, member] : switches) {
    variations.toggle(key, [field = member](Job& job) -> bool& { return options(job).ddp.*field; });
  }
  add_choice(variations, "hook",
             std::array<Named<std::optional<DType>>, 3>{{{"allreduce_hook", std::nullopt},
                                                         {"bf16_compress_hook", DType::bf16},
                                                         {"fp16_compress_hook", DType::fp16}}},
             [](Job& job) -> auto& { return options(job).ddp.hook_dtype; });
  add_dtype(variations, "mixed_precision.reduce_dtype",
            [](Job& job) -> auto& { return options(job).ddp.mixed_dtype; });
  add_buckets(variations);
  add_join(variations);
}

std::string_view name_of_unit(Unit unit) {
  constexpr std::array<std::string_view, 6> names = {
      "embedding", "blocks", "block_pairs", "head_with_norm", "embedding_with_head", "root"};
  return names.at(static_cast<std::size_t>(unit));
}

/// Every list of units with the root last.
void add_units(Variations& variations) {
  const auto set_of = [](const std::vector<Unit>& units) {
    return std::set<Unit>(units.begin(), units.end());
  };
  const std::set<Unit> now = set_of(options(variations.job()).fsdp.units);
  using List = std::vector<Unit>;
  for (const List& blocks : {List{Unit::blocks}, List{}, List{Unit::block_pairs}}) {
    for (const List& ends : {List{}, List{Unit::embedding}, List{Unit::head_with_norm},
                             List{Unit::embedding, Unit::head_with_norm}, List{Unit::embedding_with_head}}) {
      List units = ends;
      units.insert(ends.empty() || ends.front() == Unit::head_with_norm ? units.begin() : units.begin() + 1,
                   blocks.begin(), blocks.end());
      units.push_back(Unit::root);
      if (set_of(units) == now) {
        continue;
      }
      std::vector<std::string_view> names;
      std::transform(units.begin(), units.end(), std::back_inserter(names), name_of_unit);
      variations.add("units", fmt::format("[{}]", fmt::join(names, ", ")),
                     [&](Job& job) { options(job).fsdp.units = units; });
    }
  }
}

/// Ranks of a part that a group of so many can have.
std::vector<std::int64_t> parts_of(std::int64_t ranks) {
  constexpr std::int64_t most = 64;
  std::vector<std::int64_t> parts;
  for (std::int64_t part = 1; part < std::min(ranks, most); ++part) {
    if (ranks % part == 0) {
      parts.push_back(part);
    }
  }
  return parts;
}

void add_reshard(Variations& variations) {
  using Kind = ReshardAfterForward::Kind;
  const ReshardAfterForward now = options(variations.job()).fsdp.reshard_after_forward;
  const auto add = [&](std::string value, ReshardAfterForward reshard) {
    if (!(reshard == now)) {
      variations.add("reshard_after_forward", std::move(value),
                     [&](Job& job) { options(job).fsdp.reshard_after_forward = reshard; });
    }
  };
  add("auto", {Kind::automatic, 0});
  add("true", {Kind::yes, 0});
  add("false", {Kind::no, 0});
  for (const std::int64_t part : parts_of(data_shard(variations.job()) * variations.job().layout.cp)) {
    if (part > 1) {
      add(fmt::format("{}", part), {Kind::to_size, part});
    }
  }
}

void add_divide_factor(Variations& variations) {
  const Job& job = variations.job();
  const std::optional<double> now = options(job).fsdp.divide_factor;
  const auto add = [&](std::string value, std::optional<double> factor) {
    if (factor != now) {
      variations.add("divide_factor", std::move(value),
                     [&](Job& other) { options(other).fsdp.divide_factor = factor; });
    }
  };
  add(std::string(k_absent), std::nullopt);
  const std::int64_t shard = data_shard(job) * job.layout.cp;
  for (const std::int64_t factor : std::set<std::int64_t>{1, 2, shard, job.layout.dp * job.layout.cp}) {
    add(fmt::format("{}", factor), static_cast<double>(factor));
  }
}

/// Data ranks without shards, or in other numbers of replicas.
void add_mesh(Variations& variations) {
  const Job& job = variations.job();
  const bool is_replicate = options(job).fsdp.is_replicate;
  if (job.layout.dp == 1) {
    return;
  }
  variations.add("api", is_replicate ? "fully_shard" : "replicate", [&](Job& other) {
    options(other).fsdp.is_replicate = !is_replicate;
    options(other).data_shard = is_replicate ? 0 : 1;
  });
  std::vector<std::int64_t> shards = parts_of(job.layout.dp);
  shards.push_back(job.layout.dp);
  for (const std::int64_t shard : shards) {
    if (shard != data_shard(job)) {
      variations.add("data_shard", fmt::format("{}", shard), [&](Job& other) {
        options(other).data_shard = shard;
        options(other).fsdp.is_replicate = false;
      });
    }
  }
}

void add_fsdp_1(Variations& variations) {
  add_choice(variations, "strategy",
             std::array<Named<FsdpStrategy>, 5>{{{"FULL_SHARD", FsdpStrategy::full_shard},
                                                 {"SHARD_GRAD_OP", FsdpStrategy::grad_op},
                                                 {"NO_SHARD", FsdpStrategy::no_shard},
                                                 {"HYBRID_SHARD", FsdpStrategy::hybrid},
                                                 {"_HYBRID_SHARD_ZERO2", FsdpStrategy::hybrid_grad_op}}},
             [](Job& job) -> auto& { return options(job).fsdp.strategy; });
  variations.toggle("use_orig_params", [](Job& job) -> bool& { return options(job).fsdp.use_orig_params; });
  variations.toggle("sync_module_states",
                    [](Job& job) -> bool& { return options(job).fsdp.sync_module_states; });
}

void add_fsdp_2(Variations& variations) {
  add_units(variations);
  add_reshard(variations);
  add_divide_factor(variations);
  const std::pair<std::string_view, std::int64_t Fsdp::*> prefetches[] = {
      {"forward_prefetch", &Fsdp::forward_prefetch}, {"backward_prefetch", &Fsdp::backward_prefetch}};
  for (const auto& [key, member] : prefetches) {
    variations.limits(key, [field = member](Job& job) -> std::int64_t& { return options(job).fsdp.*field; },
                      {0, 1, 2, 3});
  }
  variations.toggle("reshard_after_backward",
                    [](Job& job) -> bool& { return options(job).fsdp.reshard_after_backward; });
  variations.toggle("reduce_scatter_unused_params",
                    [](Job& job) -> bool& { return options(job).fsdp.reduce_scatter_unused_params; });
  variations.toggle("all_reduce_each_micro_batch",
                    [](Job& job) -> bool& { return options(job).fsdp.all_reduce_each_micro_batch; });
}

void add_fsdp(Variations& variations) {
  const Fsdp& fsdp = options(variations.job()).fsdp;
  add_dtype(variations, "reduce_dtype", [](Job& job) -> auto& { return options(job).fsdp.reduce_dtype; });
  add_dtype(variations, "param_dtype", [](Job& job) -> auto& { return options(job).fsdp.param_dtype; });
  variations.toggle("sync_each_micro_batch",
                    [](Job& job) -> bool& { return options(job).fsdp.sync_each_micro_batch; });
  fsdp.version == 1 ? add_fsdp_1(variations) : add_fsdp_2(variations);
  add_mesh(variations);
  variations.add("fsdp.version", fsdp.version == 1 ? "2" : "1", [](Job& job) {
    Fsdp& own = options(job).fsdp;
    own.version = own.version == 1 ? 2 : 1;
    own.units = {Unit::blocks, Unit::root};
  });
}

void add_tensor(Variations& variations) {
  variations.toggle("sequence_parallel", [](Job& job) -> bool& { return job.layout.sequence_parallel; });
  variations.toggle("loss_parallel", [](Job& job) -> bool& { return options(job).tensor.loss_parallel; });
  variations.toggle("init_from_rank0", [](Job& job) -> bool& { return options(job).tensor.init_from_rank0; });
}

void add_pipeline(Variations& variations) {
  using Schedule = PipelineSchedule;
  const Job& now = variations.job();
  variations.toggle("shapes: static",
                    [](Job& job) -> bool& { return options(job).pipeline.has_static_shapes; });
  constexpr std::array<std::pair<std::string_view, Schedule>, 7> schedules = {
      {{"1F1B", Schedule::one_f_one_b},
       {"GPipe", Schedule::gpipe},
       {"Interleaved1F1B", Schedule::interleaved_1f1b},
       {"LoopedBFS", Schedule::looped_bfs},
       {"InterleavedZeroBubble", Schedule::interleaved_zero_bubble},
       {"ZBVZeroBubble", Schedule::zbv_zero_bubble},
       {"DualPipeV", Schedule::dual_pipe_v}}};
  for (const auto& [name, schedule] : schedules) {
    const bool is_single = schedule == Schedule::gpipe || schedule == Schedule::one_f_one_b;
    const std::int64_t stages = is_single                        ? 1
                                : now.layout.virtual_stages == 1 ? 2
                                                                 : now.layout.virtual_stages;
    if (schedule != options(now).pipeline.schedule) {
      variations.add("schedule", std::string(name), [&, chosen = schedule](Job& job) {
        set_schedule(job, chosen);
        job.layout.virtual_stages = stages;
      });
    }
  }
  for (const std::int64_t stages : {1, 2, 3, 4}) {
    if (stages != now.layout.virtual_stages) {
      variations.add("stages_per_rank", fmt::format("{}", stages),
                     [&](Job& job) { job.layout.virtual_stages = stages; });
    }
  }
}

void add_trainer(Variations& variations) {
  const Job& now = variations.job();
  const bool clips = options(now).trainer.clip;
  variations.add("clip", clips ? "0" : "1", [&](Job& job) {
    options(job).trainer.clip = !clips;
    job.train.gradient_clipping = clips ? 0 : 1;
  });
  const bool recomputes = now.train.recompute == Recompute::full;
  variations.add("activation_checkpoint", recomputes ? "none" : "full",
                 [&](Job& job) { set_recompute(job, recomputes ? Recompute::none : Recompute::full); });
  add_choice(variations, "optimizer",
             std::array<Named<Optimizer>, 2>{{{"adamw", Optimizer::adamw}, {"sgd", Optimizer::sgd}}},
             [](Job& job) -> auto& { return options(job).trainer.optimizer; });
  variations.toggle("norm_full_tensor",
                    [](Job& job) -> bool& { return options(job).trainer.norm_full_tensor; });
}

void add_patterns(Variations& variations, std::string_view key,
                  std::vector<std::string> ModelConfig::* member,
                  const std::vector<std::vector<std::string>>& values) {
  for (const std::vector<std::string>& patterns : values) {
    if (patterns != variations.job().model.*member) {
      variations.add(
          key, patterns.empty() ? std::string(k_absent) : fmt::format("[{}]", fmt::join(patterns, ", ")),
          [&](Job& job) { job.model.*member = patterns; });
    }
  }
}

/// Parts of the model, by the names of its module tree.
void add_parts(Variations& variations) {
  constexpr std::int64_t most_layers = 32;
  const std::int64_t layers = std::min(variations.job().model.layers, most_layers);
  std::vector<std::vector<std::string>> unused = {{}};
  std::vector<std::vector<std::string>> frozen = {
      {},         {"tok_embeddings.*"},           {"output.*"},      {"tok_embeddings.*", "output.*"},
      {"*norm*"}, {"tok_embeddings.*", "*norm*"}, {"*attention.w*"}, {"*feed_forward*"}};
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    unused.push_back({fmt::format("layers.{}", layer)});
    unused.push_back({fmt::format("layers.{}.feed_forward", layer)});
    frozen.push_back({fmt::format("layers.{}.*", layer)});
  }
  add_patterns(variations, "unused", &ModelConfig::unused, unused);
  add_patterns(variations, "frozen", &ModelConfig::frozen, frozen);
  add_patterns(variations, "fp32_patterns", &ModelConfig::fp32_patterns, {{}, {"*norm*"}});
  variations.toggle("buffers: batch_norm", [](Job& job) -> bool& { return job.model.has_batch_norm; });
}

/// Other releases, by the newest one that was recorded or read of each.
void add_releases(Variations& variations) {
  const KnownVersion& now = behaviour(variations.job()).version;
  std::vector<KnownVersion> versions = known_versions();
  std::reverse(versions.begin(), versions.end());
  for (const KnownVersion& version : versions) {
    if (version.name != now.name) {
      variations.add("framework_version", std::string(version.name),
                     [&](Job& job) { job.framework_version = version.last; });
    }
  }
}

/// The other way to reduce gradients of data ranks.
void add_wrapper(Variations& variations) {
  const Job& now = variations.job();
  if (now.layout.dp == 1) {
    return;
  }
  const bool is_ddp = options(now).ddp.is_used;
  variations.add("section", is_ddp ? "fsdp" : "ddp", [&](Job& job) {
    Options& own = options(job);
    own.ddp = {.is_used = !is_ddp};
    own.fsdp = {.is_used = is_ddp};
    own.data_shard = 0;
  });
}

}  // namespace

void add_variations(Variations& variations) {
  const Job& job = variations.job();
  if (options(job).ddp.is_used) {
    add_ddp(variations);
  }
  if (options(job).fsdp.is_used) {
    add_fsdp(variations);
  }
  if (job.layout.tp > 1) {
    add_tensor(variations);
  }
  if (job.layout.cp > 1) {
    add_choice(variations, "context_parallel.method",
               std::array<Named<RingMethod>, 3>{{{"ring_all_gather", RingMethod::all_gather},
                                                 {"kv_all_gather", RingMethod::kv_all_gather},
                                                 {"ring_all_to_all", RingMethod::all_to_all}}},
               [](Job& other) -> auto& { return options(other).ring; });
  }
  if (job.layout.pp > 1) {
    add_pipeline(variations);
  }
  add_trainer(variations);
  add_parts(variations);
  add_releases(variations);
  add_wrapper(variations);
}

}  // namespace commlens::pytorch
