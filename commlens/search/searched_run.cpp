#include "commlens/search/searched_run.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/machine/product_fields.hpp"
#include "commlens/simulate/known_names.hpp"
#include "commlens/simulate/machine_hardware.hpp"

namespace commlens {
namespace {

constexpr double k_gib = 1024.0 * 1024 * 1024;

double value_of(const std::optional<Quantity>& quantity) { return quantity ? quantity->value : 0; }

/// The first number that a time needs and the machine lacks; empty: it has all.
std::string missing_of(const Machine& machine, const RunHardware& hardware, std::int64_t ranks) {
  return hardware.peak <= 0                               ? "processor.peaks of bf16 or fp16"
         : hardware.memory_bandwidth <= 0                 ? "processor.memory_bandwidth"
         : value_of(machine.processor.memory) <= 0        ? "processor.memory"
         : hardware.link <= 0 && hardware.domain > 1      ? "scale_up.bandwidth"
         : hardware.network <= 0 && ranks > hardware.node ? "scale_out.nics and scale_out.bandwidth"
                                                          : "";
}

Result<void> check_ranks(const Machine& machine, std::int64_t ranks) {
  const std::int64_t node = ranks_on_node(machine);
  if (machine.nodes && ranks > node * std::llround(machine.nodes->value)) {
    return failure(fmt::format("--gpus {}: {} has {} devices, {} nodes of {}", ranks, machine.name,
                               node * std::llround(machine.nodes->value), machine.nodes->value, node));
  }
  if (ranks > node && ranks % node != 0) {
    return failure(
        fmt::format("--gpus {}: nodes of {} have {} devices; take a multiple", ranks, machine.name, node));
  }
  return {};
}

/// Products of less than 16 bit need a device that has them: by its peaks, else by its architecture.
Result<void> check_precision(const Machine& machine, MatrixPrecision precision) {
  const Architecture architecture = machine.processor.architecture;
  const bool has_fp4 = architecture == Architecture::blackwell;
  const bool has_fp8 = has_fp4 || architecture == Architecture::hopper ||
                       architecture == Architecture::cdna3 || peak_of(machine.processor, DType::fp8);
  if (precision == MatrixPrecision::bf16 || (precision == MatrixPrecision::fp8 ? has_fp8 : has_fp4)) {
    return {};
  }
  return failure(fmt::format("--precision {}: {} ({}) has no such products; take {}",
                             precision == MatrixPrecision::fp8 ? "fp8" : "fp4", machine.name,
                             machine.processor.name, has_fp8 ? "bf16 or fp8" : "bf16"));
}

const RunFramework* framework_named_in_list(const std::string& name) {
  for (const RunFramework& each : known_names().frameworks) {
    if (each.name == name) {
      return &each;
    }
  }
  return nullptr;
}

bool splits_optimizer(const RunFramework& framework) {
  return std::find(framework.searched.begin(), framework.searched.end(), DataParallelKind::optimizer) !=
         framework.searched.end();
}

/// The one with the most runs on the device, else on any, of those that can split optimizer states.
const RunFramework* usual_framework(const RunCalibration& calibration, const std::string& gpu) {
  std::vector<const RunFramework*> frameworks;
  for (const RunFramework& each : known_names().frameworks) {
    if (splits_optimizer(each)) {
      frameworks.push_back(&each);
    }
  }
  return most_measured(frameworks, gpu, calibration);
}

/// By its name here, or by the words that a table would have.
Result<const RunFramework*> asked_framework(const SearchQuestion& question, const RunCalibration& calibration,
                                            const std::string& gpu) {
  if (question.framework.empty()) {
    return usual_framework(calibration, gpu);
  }
  const RunFramework* const named = framework_named_in_list(question.framework);
  const RunFramework& found = named != nullptr ? *named : find_framework(question.framework);
  if (named == nullptr && found.words.empty()) {
    return failure(
        fmt::format("--framework {}: choose {}", question.framework, fmt::join(search_frameworks(), ", ")));
  }
  return &found;
}

/// The run of the question under a framework; its layouts are those of `kinds`.
TimedSpace space_under(const RunFramework& framework, const SearchQuestion& question,
                       const RunHardware& hardware, const RunCalibration& calibration,
                       std::vector<DataParallelKind> kinds) {
  TimedSpace timed;
  timed.framework = framework.name;
  timed.space.kinds = std::move(kinds);
  timed.space.has_host_optimizer_of_shards = framework.has_host_optimizer_of_shards;
  TrainingRun& base = timed.base;
  base.model = run_model(question.model);
  base.hardware = hardware;
  base.behaviour = framework.behaviour;
  base.behaviour.precision = question.precision;
  base.layout.ranks = question.ranks;
  base.layout.global_batch = question.global_batch;
  if (const Accelerator* const known = accelerator_of(question.machine); known != nullptr) {
    base.priors = known->priors;
  }
  base.priors.insert(base.priors.end(), framework.priors.begin(), framework.priors.end());
  base.family = family_of_run(hardware, framework.name, calibration);
  timed.basis = basis_of(base, calibration);
  return timed;
}

/// Of a framework none of whose runs had sharded parameters: as of what else a family has not seen
/// (docs/time-model.md#how-sure-iteration-times-are).
void borrow(RunBasis& basis, const std::string& family) {
  if (basis.provenance.starts_with("calibrated")) {
    basis.spread = std::max(basis.spread, std::log(1.3));
    basis.provenance = fmt::format("borrowed from {}, which has not seen sharded parameters", family);
  }
}

std::vector<TimedSpace> spaces_under(const RunFramework& framework, const SearchQuestion& question,
                                     const RunHardware& hardware, const RunCalibration& calibration) {
  std::vector<DataParallelKind> kinds = framework.searched;
  std::vector<DataParallelKind> sharded;
  if (!framework.has_sharded_runs) {
    const auto first = std::stable_partition(kinds.begin(), kinds.end(),
                                             [](DataParallelKind kind) { return !is_sharded(kind); });
    sharded.assign(first, kinds.end());
    kinds.erase(first, kinds.end());
  }
  std::vector<TimedSpace> spaces = {space_under(framework, question, hardware, calibration, kinds)};
  if (!sharded.empty()) {
    const RunFramework* const lender = measured_with_shards(hardware.gpu, calibration);
    spaces.push_back(
        space_under(lender != nullptr ? *lender : framework, question, hardware, calibration, sharded));
    spaces.back().space.needs_data_ranks = true;
    if (lender == nullptr) {
      borrow(spaces.back().basis, spaces.back().base.family);
    }
  }
  return spaces;
}

}  // namespace

std::vector<std::string> search_frameworks() {
  std::vector<std::string> names;
  for (const RunFramework& each : known_names().frameworks) {
    if (std::find(names.begin(), names.end(), each.name) == names.end()) {
      names.push_back(each.name);
    }
  }
  return names;
}

Result<RunHardware> hardware_of(const Machine& machine, std::int64_t ranks) {
  if (const Result<void> fits = check_ranks(machine, ranks); !fits) {
    return tl::unexpected(fits.error());
  }
  RunHardware hardware = machine_hardware(machine, ranks);
  const std::string missing = missing_of(machine, hardware, ranks);
  return missing.empty()
             ? Result<RunHardware>(std::move(hardware))
             : failure(fmt::format("machine {}: has no {}, which times need", machine.name, missing));
}

RunModel run_model(const ModelConfig& model) {
  RunModel run;
  run.name = model.name;
  run.layers = model.layers;
  run.hidden = model.hidden;
  run.heads = model.heads;
  run.kv_heads = model.kv_heads;
  run.head_dim = model.head_dim;
  run.ffn = model.ffn_hidden;
  run.vocab = model.vocab;
  run.sequence = model.sequence;
  run.is_gated = model.gated_mlp;
  run.has_tied_embeddings = model.tied_embeddings;
  run.has_latent_attention = model.latent.is_used();
  run.experts = model.experts;
  run.top_k = model.top_k;
  run.expert_ffn = model.experts > 1 ? model.expert_hidden() : 0;
  run.shared_experts = model.shared_experts;
  run.dense_layers = model.dense_layers;
  return run;
}

Result<SearchedRun> searched_run(const SearchQuestion& question, const RunCalibration& calibration) {
  if (const Result<void> fits = check_precision(question.machine, question.precision); !fits) {
    return tl::unexpected(fits.error());
  }
  return hardware_of(question.machine, question.ranks).and_then([&](const RunHardware& hardware) {
    return asked_framework(question, calibration, hardware.gpu).map([&](const RunFramework* framework) {
      return SearchedRun{spaces_under(*framework, question, hardware, calibration),
                         hardware.memory_gb * k_gib};
    });
  });
}

}  // namespace commlens
