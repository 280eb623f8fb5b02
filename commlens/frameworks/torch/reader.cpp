#include "commlens/frameworks/torch/reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commlens/frameworks/torch/options.hpp"
#include "commlens/frameworks/torch/schedules.hpp"

namespace commlens::pytorch {
namespace {

std::optional<Bytes> cap_of(double mebibytes) {
  return mebibytes > 0 && mebibytes <= 1e9
             ? std::optional(Bytes{static_cast<std::int64_t>(mebibytes * 1024.0 * 1024.0)})
             : std::nullopt;
}

void read_dtype(MapReader& reader, std::string_view key, std::optional<DType>& dtype) {
  reader.choose<std::optional<DType>>(
      key, {{"fp32", DType::fp32}, {"fp16", DType::fp16}, {"bf16", DType::bf16}}, dtype);
}

void read_caps(MapReader& reader, Ddp& ddp) {
  double cap = 25;
  if (reader.has("bucket_cap_mb")) {
    reader.read("bucket_cap_mb", cap);
    ddp.bucket_cap = cap_of(cap);
    if (!ddp.bucket_cap) {
      reader.fail("bucket_cap_mb", "must be more than 0 and at most 1e9");
    }
  }
  std::vector<std::string> caps;
  reader.read("bucket_cap_mb_list", caps);
  for (const std::string& text : caps) {
    double number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_number = fault == std::errc() && end == text.data() + text.size();
    const std::optional<Bytes> limit = is_number ? cap_of(number) : std::nullopt;
    if (!limit) {
      reader.fail("bucket_cap_mb_list", "must have numbers of more than 0 and at most 1e9");
      return;
    }
    ddp.bucket_caps.push_back(*limit);
  }
}

Result<void> read_ddp(const ConfigNode& section, Job& job) {
  Ddp& ddp = options(job).ddp;
  ddp.is_used = true;
  MapReader reader(section, {job.warnings, job.unmodelled});
  read_caps(reader, ddp);
  reader.read("find_unused_parameters", ddp.find_unused_parameters);
  reader.read("static_graph", ddp.static_graph);
  reader.read("broadcast_buffers", ddp.broadcast_buffers);
  reader.read("init_sync", ddp.init_sync);
  reader.read("skip_all_reduce_unused_params", ddp.skip_all_reduce_unused_params);
  reader.read("accumulation_sync", ddp.accumulation_sync);
  bool is_view = false;  // of no effect on messages
  reader.read("gradient_as_bucket_view", is_view);
  reader.choose<std::optional<DType>>("hook",
                                      {{"allreduce_hook", std::nullopt},
                                       {"fp16_compress_hook", DType::fp16},
                                       {"bf16_compress_hook", DType::bf16}},
                                      ddp.hook_dtype);
  if (const ConfigNode* const mixed = reader.map("mixed_precision")) {
    MapReader inner(*mixed, {job.warnings, job.unmodelled});
    read_dtype(inner, "param_dtype", ddp.mixed_parameters);
    read_dtype(inner, "reduce_dtype", ddp.mixed_dtype);
    read_dtype(inner, "buffer_dtype", ddp.mixed_buffers);
    ddp.mixed_dtype = ddp.mixed_dtype ? ddp.mixed_dtype : ddp.mixed_parameters;
    if (const Result<void> ok = inner.finish(); !ok) {
      return ok;
    }
  }
  if (const ConfigNode* const join = reader.map("join")) {
    MapReader inner(*join, {job.warnings, job.unmodelled});
    inner.read("inputs", ddp.join_inputs, 1);
    inner.refuse_true("throw", "has no rules: leave it out");
    if (const Result<void> ok = inner.finish(); !ok) {
      return ok;
    }
  }
  return reader.finish();
}

std::optional<Unit> unit_from(std::string_view name) {
  using Named = std::pair<std::string_view, Unit>;
  constexpr std::array<Named, 6> units = {{{"embedding", Unit::embedding},
                                           {"blocks", Unit::blocks},
                                           {"block_pairs", Unit::block_pairs},
                                           {"head_with_norm", Unit::head_with_norm},
                                           {"embedding_with_head", Unit::embedding_with_head},
                                           {"root", Unit::root}}};
  const auto* const found =
      std::find_if(units.begin(), units.end(), [&](const Named& unit) { return unit.first == name; });
  return found == units.end() ? std::nullopt : std::optional(found->second);
}

void read_units(MapReader& reader, Fsdp& fsdp) {
  std::vector<std::string> names;
  reader.read("units", names);
  if (names.empty()) {
    return;
  }
  fsdp.units.clear();
  for (const std::string& name : names) {
    const std::optional<Unit> unit = unit_from(name);
    if (!unit) {
      reader.fail("units", fmt::format("has '{}'; expected embedding, blocks, block_pairs, head_with_norm, "
                                       "embedding_with_head, root",
                                       name.substr(0, 40)));
      return;
    }
    fsdp.units.push_back(*unit);
  }
}

void read_reshard(MapReader& reader, ReshardAfterForward& reshard) {
  const ConfigNode* const node = reader.node("reshard_after_forward");
  if (node == nullptr) {
    return;
  }
  using How = ReshardAfterForward::Kind;
  if (node->text == "auto" || node->text == "true" || node->text == "false") {
    reshard.kind = node->text == "auto" ? How::automatic : node->text == "true" ? How::yes : How::no;
    return;
  }
  reader.read("reshard_after_forward", reshard.size);
  reshard.kind = How::to_size;
}

void read_version_1(MapReader& reader, Fsdp& fsdp) {
  reader.choose("strategy",
                {{"FULL_SHARD", FsdpStrategy::full_shard},
                 {"SHARD_GRAD_OP", FsdpStrategy::grad_op},
                 {"NO_SHARD", FsdpStrategy::no_shard},
                 {"HYBRID_SHARD", FsdpStrategy::hybrid},
                 {"_HYBRID_SHARD_ZERO2", FsdpStrategy::hybrid_grad_op}},
                fsdp.strategy);
  reader.read("use_orig_params", fsdp.use_orig_params);
  reader.read("sync_module_states", fsdp.sync_module_states);
}

Result<void> read_fsdp(const ConfigNode& section, Job& job) {
  Fsdp& fsdp = options(job).fsdp;
  fsdp.is_used = true;
  MapReader reader(section, {job.warnings, job.unmodelled});
  std::int64_t version = 2;
  reader.read("version", version);
  if (version > 2) {
    reader.fail("version", "must be 1 or 2");
  }
  fsdp.version = static_cast<int>(version);
  using namespace std::string_view_literals;
  constexpr std::array of_1 = {"strategy"sv, "use_orig_params"sv, "sync_module_states"sv};
  constexpr std::array of_2 = {"api"sv,
                               "reshard_after_forward"sv,
                               "reshard_after_backward"sv,
                               "divide_factor"sv,
                               "forward_prefetch"sv,
                               "backward_prefetch"sv,
                               "offload"sv,
                               "reduce_scatter_unused_params"sv,
                               "all_reduce_each_micro_batch"sv};
  for (const std::string_view key : version == 1 ? std::span<const std::string_view>(of_2) : of_1) {
    if (reader.has(key)) {
      reader.fail(key,
                  fmt::format("belongs to version {}; the section has version {}", 3 - version, version));
    }
  }
  reader.choose("api", {{"fully_shard", false}, {"replicate", true}}, fsdp.is_replicate);
  read_units(reader, fsdp);
  read_reshard(reader, fsdp.reshard_after_forward);
  reader.read("reshard_after_backward", fsdp.reshard_after_backward);
  read_dtype(reader, "param_dtype", fsdp.param_dtype);
  read_dtype(reader, "reduce_dtype", fsdp.reduce_dtype);
  if (reader.has("divide_factor")) {
    double factor = 0;
    reader.read("divide_factor", factor);
    fsdp.divide_factor = factor;
    if (!(factor > 0 && factor <= 1e12)) {
      reader.fail("divide_factor", "must be more than 0 and at most 1e12");
    }
  }
  reader.read("forward_prefetch", fsdp.forward_prefetch, 0);
  reader.read("backward_prefetch", fsdp.backward_prefetch, 0);
  reader.choose("offload", {{"cpu", true}, {"none", false}}, fsdp.is_offloaded);
  reader.read("reduce_scatter_unused_params", fsdp.reduce_scatter_unused_params);
  reader.read("sync_each_micro_batch", fsdp.sync_each_micro_batch);
  reader.read("all_reduce_each_micro_batch", fsdp.all_reduce_each_micro_batch);
  read_version_1(reader, fsdp);
  return reader.finish();
}

Result<void> read_tensor(const ConfigNode& section, Job& job) {
  MapReader reader(section, {job.warnings, job.unmodelled});
  bool is_dtensor = true;
  for (const std::string_view other : {"titan", "hf"}) {
    if (const ConfigNode* const style = reader.node("style"); style != nullptr && style->text == other) {
      reader.fail("style",
                  fmt::format("{} belongs to another framework; the torch rules have dtensor", other));
    }
  }
  reader.choose("style", {{"dtensor", true}}, is_dtensor);
  reader.read("sequence_parallel", job.layout.sequence_parallel);
  reader.read("loss_parallel", options(job).tensor.loss_parallel);
  reader.read("init_from_rank0", options(job).tensor.init_from_rank0);
  return reader.finish();
}

Result<void> read_context(const ConfigNode& section, Job& job) {
  MapReader reader(section, {job.warnings, job.unmodelled});
  if (const ConfigNode* const method = reader.node("method");
      method != nullptr && method->text == "ulysses") {
    reader.fail("method",
                "ulysses has no torch rules; use ring_all_gather, ring_all_to_all or kv_all_gather");
  }
  reader.choose("method",
                {{"ring_all_gather", RingMethod::all_gather},
                 {"ring_all_to_all", RingMethod::all_to_all},
                 {"kv_all_gather", RingMethod::kv_all_gather}},
                options(job).ring);
  reader.read("load_balance", options(job).balances_context);
  return reader.finish();
}

Result<void> read_pipeline(const ConfigNode& section, Job& job) {
  using Schedule = PipelineSchedule;
  MapReader reader(section, {job.warnings, job.unmodelled});
  reader.choose("schedule",
                {{"GPipe", Schedule::gpipe},
                 {"1F1B", Schedule::one_f_one_b},
                 {"Interleaved1F1B", Schedule::interleaved_1f1b},
                 {"LoopedBFS", Schedule::looped_bfs},
                 {"InterleavedZeroBubble", Schedule::interleaved_zero_bubble},
                 {"ZBVZeroBubble", Schedule::zbv_zero_bubble},
                 {"DualPipeV", Schedule::dual_pipe_v}},
                options(job).pipeline.schedule);
  reader.read("stages_per_rank", job.layout.virtual_stages);
  if (const ConfigNode* const csv = reader.node("csv")) {
    const std::filesystem::path path = std::filesystem::path(csv->file).parent_path() / csv->text;
    Result<ScheduleFile> file = read_schedule_file(path);
    if (!file) {
      return tl::unexpected(file.error());
    }
    Pipeline& own = options(job).pipeline;
    own.schedule = Schedule::from_file;
    job.layout.virtual_stages = file->stages_per_rank;
    own.file = std::make_shared<const ScheduleFile>(*std::move(file));
  }
  job.train.schedule = usual_schedule(options(job).pipeline.schedule);
  reader.choose("shapes", {{"static", true}, {"dynamic", false}}, options(job).pipeline.has_static_shapes);
  return reader.finish();
}

Result<void> read_trainer(const ConfigNode& section, Job& job) {
  Trainer& trainer = options(job).trainer;
  MapReader reader(section, {job.warnings, job.unmodelled});
  double clip = 0;
  reader.read("clip", clip);
  if (!(clip >= 0)) {
    reader.fail("clip", "must not be negative");
  }
  trainer.clip = clip > 0;
  job.train.gradient_clipping = clip;
  reader.read("norm_full_tensor", trainer.norm_full_tensor);
  Recompute recompute = job.train.recompute;
  reader.choose("activation_checkpoint", {{"none", Recompute::none}, {"full", Recompute::full}}, recompute);
  set_recompute(job, recompute);
  reader.choose(
      "optimizer",
      {{"adamw", Optimizer::adamw}, {"adamw_foreach", Optimizer::adamw_foreach}, {"sgd", Optimizer::sgd}},
      trainer.optimizer);
  return reader.finish();
}

}  // namespace

Result<void> read_case_section(std::string_view name, const ConfigNode& section, Job& job) {
  if (name == "ddp") {
    return read_ddp(section, job);
  }
  if (name == "fsdp") {
    return read_fsdp(section, job);
  }
  if (name == "tensor_parallel") {
    return read_tensor(section, job);
  }
  if (name == "context_parallel") {
    return read_context(section, job);
  }
  return name == "pipeline" ? read_pipeline(section, job) : read_trainer(section, job);
}

void read_case_layout(MapReader& reader, Job& job) {
  std::int64_t replicas = 1;
  std::int64_t shard = 1;
  const bool is_given = reader.has("data_replicate") || reader.has("data_shard");
  reader.read("data_replicate", replicas);
  reader.read("data_shard", shard);
  if (is_given) {
    job.layout.dp = replicas * shard;
    options(job).data_shard =
        replicas == 1 ? 0 : shard;  // without replicas, of however many ranks there will be
  }
}

}  // namespace commlens::pytorch
