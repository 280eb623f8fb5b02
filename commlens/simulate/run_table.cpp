#include "commlens/simulate/run_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "commlens/base/csv.hpp"
#include "commlens/base/text.hpp"
#include "commlens/simulate/known_names.hpp"

namespace commlens {
namespace {

// Beyond what any run has; products of a few of them stay inside 64 bits.
constexpr std::int64_t k_most = std::int64_t{1} << 24;
constexpr std::int64_t k_most_degree = std::int64_t{1} << 20;

/// The cells of a row. The first that cannot be used is kept as the reason.
class RowCells {
 public:
  RowCells(const CsvTable& table, const CsvTable::Row& row) : table_(table), row_(row) {}

  std::string text(std::string_view column) const { return table_.cell(row_, column); }
  std::string lower(std::string_view column) const { return in_lower_case(text(column)); }
  bool is_true(std::string_view column) const {
    const std::string value = lower(column);
    return value == "1" || value == "true" || value == "yes";
  }
  bool has(std::string_view column, std::string_view word) const {
    return lower(column).find(word) != std::string::npos;
  }
  double number(std::string_view column, double otherwise) {
    const std::string value = text(column);
    if (value.empty()) {
      return otherwise;
    }
    // "80 GB": the number before its unit.
    const Result<double> read = parse_number(value.substr(0, value.find(' ')));
    if (!read || *read < 0) {
      reason(fmt::format("{} is '{}'", column, value));
    }
    return read.value_or(otherwise);
  }
  std::int64_t count(std::string_view column, std::int64_t otherwise) {
    const double value = number(column, static_cast<double>(otherwise));
    if (value != std::floor(value) || value > static_cast<double>(k_most)) {
      reason(fmt::format("{} is '{}', which is no count of a run", column, text(column)));
      return otherwise;
    }
    return static_cast<std::int64_t>(value);
  }
  std::int64_t needed(std::string_view column) {
    const std::int64_t value = count(column, 0);
    if (value < 1) {
      reason(fmt::format("{} is not stated", column));
    }
    return value;
  }
  std::int64_t degree(std::string_view column) {
    const std::int64_t value = std::max<std::int64_t>(count(column, 1), 1);
    if (value > k_most_degree) {
      reason(fmt::format("{} is {}, more than any run has", column, value));
      return 1;
    }
    return value;
  }
  void reason(std::string text) { reason_ = reason_.empty() ? std::move(text) : reason_; }
  const std::string& reason() const { return reason_; }

 private:
  const CsvTable& table_;
  const CsvTable::Row& row_;
  std::string reason_;
};

RunModel model_of(RowCells& cells) {
  RunModel model;
  model.name = cells.text("model");
  model.layers = cells.needed("layers");
  model.hidden = cells.needed("hidden");
  model.heads = cells.needed("heads");
  model.kv_heads = cells.count("kv_heads", model.heads);
  model.head_dim = cells.count("head_dim", model.heads > 0 ? model.hidden / model.heads : 0);
  model.is_gated = cells.is_true("gated");
  model.ffn = cells.count("ffn", 0);
  model.vocab = cells.needed("vocab");
  model.sequence = cells.needed("seq");
  model.has_tied_embeddings = cells.is_true("tied_embeddings");
  model.experts = cells.count("n_experts", 0);
  model.top_k = cells.degree("top_k");
  model.expert_ffn = cells.count("moe_ffn", model.ffn);
  model.shared_experts = cells.count("shared_experts", 0);
  model.dense_layers = cells.count("dense_layers", 0);
  if (const KnownModel* const known = find_model(model.name); known != nullptr) {
    model.has_latent_attention = known->has_latent_attention;
    model.shared_experts = model.shared_experts > 0 ? model.shared_experts : known->shared_experts;
  }
  model.has_latent_attention = model.has_latent_attention || cells.has("flags", "multi-latent-attention");
  if (model.ffn == 0 && model.expert_ffn == 0) {
    cells.reason("ffn is not stated");
  }
  if (cells.has("family", "hybrid") || cells.has("family", "ssm")) {
    cells.reason("layers without attention are not modelled");
  }
  const std::string task = cells.lower("task");
  if (task.find("lora") != std::string::npos || task.find("peft") != std::string::npos) {
    cells.reason(fmt::format("{} trains only some parameters, which is not modelled", task));
  }
  return model;
}

DataParallelKind data_kind_of(const RowCells& cells, const RunFramework& framework) {
  const std::string kind = cells.lower("dp_kind");
  if (kind.find("shard_grad_op") != std::string::npos || kind.find("zero2") != std::string::npos) {
    return kind.find("fsdp") != std::string::npos ? DataParallelKind::sharded_until_backward
                                                  : framework.data_kind.value_or(DataParallelKind::optimizer);
  }
  if (kind.starts_with("fsdp") || kind.starts_with("zero3") || kind.find("hsdp") != std::string::npos) {
    return DataParallelKind::sharded;
  }
  if (kind == "ddp" || kind.starts_with("zero0")) {
    return DataParallelKind::replicated;
  }
  return framework.data_kind.value_or(DataParallelKind::optimizer);
}

RunLayout layout_of(RowCells& cells, const RunFramework& framework) {
  RunLayout layout;
  layout.ranks = cells.needed("gpus");
  layout.tensor = cells.degree("tp");
  layout.pipeline = cells.degree("pp");
  layout.virtual_stages = cells.degree("vpp");
  layout.context = cells.degree("cp");
  layout.expert = cells.degree("ep");
  layout.data_kind = data_kind_of(cells, framework);
  layout.shard_group = cells.count("shard_group", 0);
  layout.gathers_inside_node = cells.has("dp_kind", "hpz");
  // A mixture's experts are divided over the tensor ranks, unless the table says otherwise.
  layout.expert_tensor = cells.count("etp", layout.tensor);
  layout.expert_tensor = std::max<std::int64_t>(layout.expert_tensor, 1);
  layout.has_sequence_parallel =
      cells.text("sequence_parallel").empty() ? layout.tensor > 1 : cells.is_true("sequence_parallel");
  layout.micro_batch = cells.needed("micro_batch");
  layout.global_batch = cells.needed("global_batch");
  const std::int64_t model_ranks = layout.tensor * layout.pipeline * layout.context;
  if (!cells.reason().empty()) {
    return layout;
  }
  if (layout.ranks % model_ranks != 0) {
    cells.reason(fmt::format("{} devices are no multiple of tp x pp x cp = {}", layout.ranks, model_ranks));
  } else if (layout.global_batch % (layout.micro_batch * layout.data()) != 0) {
    cells.reason(
        fmt::format("{} sequences are no multiple of {} data-parallel ranks times micro-batches of {}",
                    layout.global_batch, layout.data(), layout.micro_batch));
  }
  if (layout.expert * layout.expert_tensor > layout.data() * layout.context * layout.tensor) {
    cells.reason(fmt::format("experts over {} x {} ranks are more than dp x cp x tp = {}", layout.expert,
                             layout.expert_tensor, layout.data() * layout.context * layout.tensor));
  }
  if (layout.shard_group > layout.data() || layout.shard_group < 0) {
    layout.shard_group = layout.data();
  }
  return layout;
}

RunBehaviour behaviour_of(RowCells& cells, const RunFramework& framework, const RunLayout& layout) {
  RunBehaviour behaviour = framework.behaviour;
  const std::string recompute = cells.lower("recompute");
  behaviour.recompute = recompute.starts_with("full")        ? Recompute::full
                        : recompute.starts_with("selective") ? Recompute::selective
                                                             : Recompute::none;
  const std::string precision = cells.lower("precision");
  behaviour.precision = precision.find("fp8") != std::string::npos   ? MatrixPrecision::fp8
                        : precision.find("fp4") != std::string::npos ? MatrixPrecision::fp4
                                                                     : MatrixPrecision::bf16;
  if (precision.find("fp32") != std::string::npos || precision.find("tf32") != std::string::npos) {
    cells.reason(fmt::format("precision {} is not modelled", precision));
  }
  behaviour.has_fused_attention =
      cells.text("flash_attention") != "0" && !cells.has("flags", "attention-backend=unfused");
  behaviour.overlaps_tensor = cells.has("overlap", "ub_tp=true") ||
                              cells.has("overlap", "tp_comm_overlap=true") ||
                              cells.has("overlap", "tp-comm-overlap") || cells.has("overlap", "async_tp");
  behaviour.overlaps_point_to_point =
      cells.has("overlap", "p2p=true") || cells.has("overlap", "overlap_p2p_comm=true");
  if (cells.has("overlap", "grad=") || cells.has("overlap", "overlap-grad")) {
    behaviour.overlaps_gradients = cells.has("overlap", "grad=true") || cells.has("overlap", "overlap-grad");
    behaviour.overlaps_parameters =
        cells.has("overlap", "param=true") || cells.has("overlap", "overlap-param");
  }
  behaviour.overlaps_exchange = cells.has("overlap", "overlap-moe-expert-parallel-comm");
  behaviour.has_graphs = cells.has("flags", "layer_cuda_graph=1") || cells.has("flags", "cuda-graph-impl");
  behaviour.has_host_optimizer = (framework.has_host_optimizer_of_shards && is_sharded(layout.data_kind)) ||
                                 cells.has("notes", "full offload") || cells.has("flags", "cpu_offload=true");
  if (cells.has("flags", "mp_mode=pure")) {
    behaviour.gradient_bytes = 2;
  }
  return behaviour;
}

RunHardware hardware_of(RowCells& cells, std::int64_t ranks, CoefficientValues& priors) {
  const double memory_text = cells.number("gpu_mem_gb", 0);
  const double memory = cells.has("gpu_mem_gb", "mib") ? memory_text / 953.7 : memory_text;
  const Accelerator* const known = find_accelerator(cells.text("gpu"), memory);
  if (known == nullptr) {
    cells.reason(cells.text("gpu").empty() ? "gpu is not stated"
                                           : fmt::format("gpu '{}' is not known", cells.text("gpu")));
    return {};
  }
  priors = known->priors;
  RunHardware hardware = known->hardware;
  hardware.memory_gb = memory;
  const double network = cells.number("net_gbps_per_gpu", 0);
  hardware.network = network > 0 ? network / 8 * 1e9 : hardware.network;
  hardware.node = std::max<std::int64_t>(cells.count("gpus_per_node", hardware.node), 1);
  hardware.domain = std::max(hardware.domain, std::int64_t{1});
  if (hardware.domain < 64) {
    hardware.domain = hardware.node;
  }
  hardware.domain = std::min(hardware.domain, std::max<std::int64_t>(ranks, 1));
  return hardware;
}

std::string family_of(const RowCells& cells, const TrainingRun& run, const RunFramework& framework) {
  const std::string network =
      cells.text("net_gbps_per_gpu").empty() ? "" : fmt::format(", {} Gb/s", cells.text("net_gbps_per_gpu"));
  return fmt::format("{}{}, {}", run.hardware.gpu, network, framework.name);
}

RunRow row_of(const CsvTable& table, const CsvTable::Row& row) {
  RowCells cells(table, row);
  RunRow result;
  result.id = cells.text("id");
  result.line = row.line;
  TrainingRun& run = result.run;
  run.id = result.id;
  run.source = cells.text("source_key");
  run.model = model_of(cells);
  const RunFramework& framework = find_framework(cells.text("framework"));
  run.layout = layout_of(cells, framework);
  run.behaviour = behaviour_of(cells, framework, run.layout);
  run.hardware = hardware_of(cells, run.layout.ranks, run.priors);
  run.priors.insert(run.priors.end(), framework.priors.begin(), framework.priors.end());
  run.family = family_of(cells, run, framework);
  if (cells.text("recompute").empty() || cells.text("recompute_known") == "0") {
    run.assumed = "recomputation is not stated: taken as " +
                  (cells.text("recompute").empty() ? "none" : cells.text("recompute"));
  }
  if (!cells.text("seconds_per_iteration").empty()) {
    const double seconds = cells.number("seconds_per_iteration", 0);
    run.seconds = seconds > 0 ? std::optional<double>(seconds) : std::nullopt;
    result.time_text = run.seconds ? "" : cells.text("seconds_per_iteration");
  }
  result.reason = cells.reason();
  return result;
}

constexpr std::array<std::string_view, 10> k_needed_columns = {
    "id", "layers", "hidden", "heads", "vocab", "seq", "gpu", "gpus", "micro_batch", "global_batch"};

}  // namespace

Result<std::vector<RunRow>> parse_run_table(const std::string& file, std::string_view content) {
  const Result<CsvTable> table = parse_csv(content);
  if (!table) {
    return failure(fmt::format("{}: {}", file, table.error().message));
  }
  for (const std::string_view column : k_needed_columns) {
    if (!table->has(column)) {
      return failure(fmt::format("{}: has no column '{}' (docs/time-model.md has the list)", file, column));
    }
  }
  std::vector<RunRow> rows;
  std::set<std::string> ids;
  for (const CsvTable::Row& row : table->rows) {
    rows.push_back(row_of(*table, row));
    if (rows.back().id.empty() || !ids.insert(rows.back().id).second) {
      return failure(rows.back().id.empty()
                         ? fmt::format("{}:{}: the row has no id", file, row.line)
                         : fmt::format("{}:{}: id '{}' is there twice", file, row.line, rows.back().id));
    }
  }
  return rows.empty() ? failure(fmt::format("{}: has no rows", file))
                      : Result<std::vector<RunRow>>(std::move(rows));
}

}  // namespace commlens
