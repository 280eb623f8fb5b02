#include "commlens/simulate/run_basis.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/simulate/iteration_time.hpp"
#include "commlens/simulate/run_fit.hpp"

namespace commlens {
namespace {

// 90th percentiles of |log(predicted / measured)| when coefficients of one family predict another
// (docs/time-model.md#how-sure-iteration-times-are).
const double k_alike_spread = std::log(1.3);
const double k_unseen_spread = std::log(1.35);
const double k_unlike_spread = std::log(1.65);
const double k_uncalibrated_spread = std::log(2.0);
const double k_other_model_spread = std::log(1.15);

/// How a family stands to a run, the nearest last.
enum class Kinship : std::uint8_t { none, same_device, same_maker, alike, other_network, itself };

bool is_alike(const Accelerator& device, const std::string& gpu) {
  return std::find(device.alike.begin(), device.alike.end(), gpu) != device.alike.end();
}

Kinship kinship_of(const FamilyFit& family, const TrainingRun& run) {
  const std::string& gpu = run.hardware.gpu;
  const bool same_framework = framework_of_family(family.name) == framework_of_family(run.family);
  if (family.name == run.family) {
    return Kinship::itself;
  }
  if (family.gpu == gpu) {
    return same_framework ? Kinship::other_network : Kinship::same_device;
  }
  const Accelerator* const device = accelerator_named(gpu);
  const Accelerator* const other = accelerator_named(family.gpu);
  if (!same_framework || device == nullptr || other == nullptr) {
    return Kinship::none;
  }
  return is_alike(*device, family.gpu)   ? Kinship::alike
         : device->maker == other->maker ? Kinship::same_maker
                                         : Kinship::none;
}

double spread_of(Kinship kinship) {
  return kinship == Kinship::itself ? 0 : kinship >= Kinship::alike ? k_alike_spread : k_unlike_spread;
}

struct Lender {
  const FamilyFit* family = nullptr;
  Kinship kinship = Kinship::none;
};

/// Of several the one with most runs.
Lender nearest_lender(const RunCalibration& calibration, const TrainingRun& run) {
  Lender best;
  for (const FamilyFit& family : calibration.families) {
    const Kinship kinship = kinship_of(family, run);
    if (kinship > best.kinship ||
        (kinship == best.kinship && best.family != nullptr && family.rows > best.family->rows)) {
      best = {&family, kinship};
    }
  }
  return best;
}

/// What a family has not seen of a run; empty: nothing.
std::string unseen(const FamilyFit& family, const TrainingRun& run) {
  const bool is_small = run.behaviour.precision != MatrixPrecision::bf16;
  if (is_small ? !family.has_small : !family.has_bf16) {
    const bool is_fp8 = run.behaviour.precision == MatrixPrecision::fp8;
    return !is_small ? "16 bit" : is_fp8 ? "fp8" : "fp4";
  }
  if (run.behaviour.has_fused_attention ? !family.has_fused : !family.has_unfused) {
    return run.behaviour.has_fused_attention ? "fused attention" : "attention that is not fused";
  }
  const auto has = [&](Coefficient each) {
    return std::find(family.fitted.begin(), family.fitted.end(), each) != family.fitted.end();
  };
  if (run.model.experts > 1 && !has(Coefficient::exchange)) {
    return "mixtures of experts";
  }
  if (run.layout.ranks > 1 && has(Coefficient::step)) {  // which only runs of one device tell from the rest
    return "more than one device";
  }
  return run.model.sequence > 2 * family.longest_sequence
             ? fmt::format("sequences longer than {}", family.longest_sequence)
         : run.has_other_trainer ? "this trainer"
                                 : "";
}

/// The family's; of another device but for its matrix products, where tables of them were measured.
Coefficients lent_coefficients(const FamilyFit& family, const TrainingRun& run) {
  Coefficients coefficients = family.coefficients;
  if (const Accelerator* const device = accelerator_named(run.hardware.gpu);
      device != nullptr && family.gpu != run.hardware.gpu) {
    coefficients.set(device->priors);
  }
  return coefficients;
}

RunBasis lent_basis(const Lender& lender, const TrainingRun& run) {
  const FamilyFit& family = *lender.family;
  RunBasis basis{lent_coefficients(family, run), std::max(spread_of(lender.kinship), family.spread), "",
                 family.name};
  const std::string missing = unseen(family, run);
  if (lender.kinship == Kinship::itself && missing.empty()) {
    basis.provenance = fmt::format("calibrated on {} runs of {}", family.rows, family.name);
    if (!family.only_model.empty() && family.only_model != run.model.name) {
      basis.spread = std::max(k_other_model_spread, basis.spread);
      basis.provenance += fmt::format(", all of {}", family.only_model);
    }
    return basis;
  }
  basis.provenance = fmt::format("borrowed from {}", family.name);
  if (!missing.empty()) {
    basis.spread = std::max(k_unseen_spread, basis.spread);
    basis.provenance += fmt::format(", which has not seen {}", missing);
  }
  return basis;
}

bool has_family(const RunCalibration& calibration, const std::string& name) {
  return std::any_of(calibration.families.begin(), calibration.families.end(),
                     [&](const FamilyFit& family) { return family.name == name; });
}

/// What hosts and networks take besides bytes and operations, at one of its limits.
Coefficients with_overheads(Coefficients with, double CoefficientFacts::* limit) {
  for (const Coefficient each : {Coefficient::layer_launch, Coefficient::launch_floor,
                                 Coefficient::micro_batch, Coefficient::step, Coefficient::hop}) {
    with[each] = facts_of(each).*limit;
  }
  return with;
}

}  // namespace

RunBasis basis_of(const TrainingRun& run, const RunCalibration& calibration) {
  const Lender lender = nearest_lender(calibration, run);
  RunBasis basis = lender.family != nullptr
                       ? lent_basis(lender, run)
                       : RunBasis{start_of(run), k_uncalibrated_spread,
                                  "uncalibrated: no measured run of this device or framework"};
  if (!run.assumed.empty()) {
    basis.spread = std::max(k_alike_spread, basis.spread);
    basis.provenance += "; " + run.assumed;
  }
  return basis;
}

TimeRange range_of(const TrainingRun& run, const RunBasis& basis, double seconds) {
  const double wider = std::exp(basis.spread);
  TimeRange range{seconds / wider, seconds * wider};
  const double least =
      iteration_time(run, with_overheads(basis.coefficients, &CoefficientFacts::least)).total();
  if (seconds > 2 * least) {
    const double most =
        iteration_time(run, with_overheads(basis.coefficients, &CoefficientFacts::most)).total();
    range = {std::min(range.low, least), std::max(range.high, most)};
  }
  range.low = std::max(range.low, computed_flops(run) / peak_of_precision(run));
  return range;
}

std::string framework_of_family(std::string_view family) {
  const std::size_t comma = family.rfind(", ");
  return std::string(comma == std::string_view::npos ? family : family.substr(comma + 2));
}

std::string family_of_run(const RunHardware& hardware, std::string_view framework,
                          const RunCalibration& calibration) {
  const std::string plain = fmt::format("{}, {}", hardware.gpu, framework);
  const std::string networked =
      fmt::format("{}, {:g} Gb/s, {}", hardware.gpu, hardware.network * 8 / 1e9, framework);
  const Accelerator* const device = accelerator_named(hardware.gpu);
  const bool has_usual_network =
      device != nullptr && std::abs(device->hardware.network - hardware.network) < 1e-3 * hardware.network;
  return has_family(calibration, plain) && has_usual_network && !has_family(calibration, networked)
             ? plain
             : networked;
}

namespace {

/// Runs of a framework: on the device, on any.
std::pair<std::int64_t, std::int64_t> runs_of(const RunFramework& framework, std::string_view gpu,
                                              const RunCalibration& calibration) {
  std::pair<std::int64_t, std::int64_t> runs{0, 0};
  for (const FamilyFit& family : calibration.families) {
    if (framework_of_family(family.name) == framework.name) {
      runs.first += family.gpu == gpu ? family.rows : 0;
      runs.second += family.rows;
    }
  }
  return runs;
}

}  // namespace

const RunFramework* most_measured(std::span<const RunFramework* const> frameworks, std::string_view gpu,
                                  const RunCalibration& calibration) {
  return *std::max_element(frameworks.begin(), frameworks.end(),
                           [&](const RunFramework* a, const RunFramework* b) {
                             return runs_of(*a, gpu, calibration) < runs_of(*b, gpu, calibration);
                           });
}

const RunFramework* measured_with_shards(std::string_view gpu, const RunCalibration& calibration) {
  std::vector<const RunFramework*> frameworks;
  for (const RunFramework& each : known_names().frameworks) {
    if (each.has_sharded_runs && runs_of(each, gpu, calibration).first > 0) {
      frameworks.push_back(&each);
    }
  }
  return frameworks.empty() ? nullptr : most_measured(frameworks, gpu, calibration);
}

const RunFramework* framework_for_job(std::string_view framework, std::string_view gpu,
                                      const RunCalibration& calibration) {
  const RunFramework* const own = own_framework(framework);
  const Accelerator* const device = accelerator_named(gpu);
  const auto is_own = [&](const FamilyFit& family) {
    const bool is_near = family.gpu == gpu || (device != nullptr && is_alike(*device, family.gpu));
    return is_near && framework_of_family(family.name) == own->name;
  };
  const bool is_measured =
      own != nullptr && std::any_of(calibration.families.begin(), calibration.families.end(), is_own);
  return is_measured ? own : most_measured(frameworks_of_job(framework), gpu, calibration);
}

}  // namespace commlens
