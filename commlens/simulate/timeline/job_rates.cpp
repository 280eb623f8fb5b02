#include "commlens/simulate/timeline/job_rates.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <variant>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/machine/cost/comm_graph.hpp"
#include "commlens/machine/product_fields.hpp"
#include "commlens/simulate/known_names.hpp"
#include "commlens/simulate/machine_hardware.hpp"
#include "commlens/simulate/run_basis.hpp"

namespace commlens {
namespace {

constexpr double k_tera = 1e12;
// Of products in a type that no measured run had, as of devices that none had (docs/time-model.md).
const double k_wide_spread = std::log(2.0);
const double k_own_products_spread = std::log(1.3);
// Of fp32 products in TF32 and of those in fp8 over 16 bit, where a machine file does not say.
constexpr double k_half_peak = 0.5;
constexpr double k_small_peak = 2;

/// Kernels of one layer, forward and backward: what launches are spread over.
double kernels_of_layer(const Job& job) {
  constexpr std::array<ModulePart, 9> parts = {
      ModulePart::ln1,    ModulePart::qkv, ModulePart::attention,  ModulePart::proj, ModulePart::ln2,
      ModulePart::router, ModulePart::fc1, ModulePart::activation, ModulePart::fc2};
  double count = 0;
  for (const ModulePart part : parts) {
    for (const Pass pass : {Pass::forward, Pass::input_gradient, Pass::weight_gradient}) {
      count += static_cast<double>(kernels_of(job, part, pass).size());
    }
  }
  return std::max(count, 1.0);
}

/// Products of a pass over all parts.
std::vector<Gemm> products_of(const Job& job, Pass pass) {
  std::vector<Gemm> products;
  for (int part = 0; part < k_module_parts; ++part) {
    for (const Kernel& kernel : kernels_of(job, static_cast<ModulePart>(part), pass)) {
      if (const Gemm* const gemm = std::get_if<Gemm>(&kernel)) {
        products.push_back(*gemm);
      }
    }
  }
  return products;
}

/// Channels of a ring run on two multiprocessors' worth each way (time_model: 24 of 108 on A100).
double held_share(const Machine& machine, double processors) {
  const auto per_node = static_cast<std::int64_t>(machine.ranks_per_node.value);
  const Result<CommGraph> graph = comm_graph(machine, {std::max<std::int64_t>(per_node, 2), 1});
  if (!graph || processors <= 1) {
    return 0;
  }
  constexpr double blocks_of_channel = 2;
  return std::min(blocks_of_channel * static_cast<double>(graph->ring.count) / processors, 0.5);
}

/// Which peak the coefficients are of, where the machine file and the list of known devices differ.
std::string peak_text(const Machine& machine, const RunHardware& hardware) {
  const Accelerator* const known = accelerator_of(machine);
  const double stated = stated_peak(machine);
  if (known == nullptr || stated == known->hardware.peak) {
    return "";
  }
  if (stated <= 0) {
    return fmt::format("; the machine file has no peak: {:.4g} TFLOP/s, as {} has", hardware.peak / k_tera,
                       known->name);
  }
  return known->has_sustained_peak
             ? fmt::format("; peak of {:.4g} TFLOP/s, which {} sustains of the machine file's {:.4g}",
                           hardware.peak / k_tera, known->name, stated / k_tera)
             : fmt::format("; peak of {:.4g} TFLOP/s by the machine file, {:.4g} where runs were fitted",
                           stated / k_tera, known->hardware.peak / k_tera);
}

std::set<std::array<std::int64_t, 3>> product_shapes(const Job& job) {
  std::set<std::array<std::int64_t, 3>> shapes;
  for (const Pass pass : {Pass::forward, Pass::input_gradient, Pass::weight_gradient}) {
    for (const Gemm& gemm : products_of(job, pass)) {
      shapes.insert({gemm.m, gemm.n, gemm.k});
    }
  }
  return shapes;
}

std::set<std::array<std::int64_t, 3>> head_shapes(const Job& job) {
  std::set<std::array<std::int64_t, 3>> shapes;
  for (const Pass pass : {Pass::forward, Pass::input_gradient, Pass::weight_gradient}) {
    for (const Kernel& kernel : kernels_of(job, ModulePart::head, pass)) {
      const Gemm& gemm = std::get<Gemm>(kernel);
      shapes.insert({gemm.m, gemm.n, gemm.k});
    }
  }
  return shapes;
}

/// Products by the machine file's own numbers, where it has them.
void use_machine_products(const Job& job, DType dtype, const Machine& machine, JobRates& result) {
  const ProductTimes* const known = known_products(machine.processor, dtype);
  if (known == nullptr || result.precision != MatrixPrecision::bf16) {  // files have those of 16 bit
    return;
  }
  if (known->form) {
    const std::optional<double> peak = peak_of(machine.processor, known->dtype);
    COMMLENS_CHECK(peak, "machine files with a gemm block have its peak");
    const ProductForm& form = *known->form;
    result.products.peak = *peak;
    result.products.gemm_efficiency = form.efficiency.value;
    result.products.product_overhead = form.each.value * 1e-6;
    result.products.half_inner = form.half_inner.value;
    result.products.wave_weight = form.wave_weight.value;
    result.products.processors = form.processors.value;
    result.products.most_parts = ComputeRates().most_parts;
  }
  for (const ProductTime& shape : known->shapes) {
    result.measured_products[{shape.m, shape.n, shape.k}] = shape.us * 1e-6;
  }
  const std::set<std::array<std::int64_t, 3>> shapes = product_shapes(job);
  const auto measured = std::count_if(shapes.begin(), shapes.end(), [&](const auto& shape) {
    return result.measured_products.contains(shape);
  });
  if (known->form || measured == std::ssize(shapes)) {
    result.provenance = "all but products " + result.provenance;
  }
  if (measured > 0 || known->form) {
    // Other kernels are as runs had them beside other products.
    result.spread = std::max(result.spread, k_own_products_spread);
  }
  if (measured > 0) {
    result.provenance += fmt::format("; {} of {} shapes of products measured ({})", measured, shapes.size(),
                                     known->shapes_source);
  }
  if (known->form && measured < std::ssize(shapes)) {
    result.provenance += fmt::format("; {}products by the machine's gemm block ({})",
                                     measured > 0 ? "other " : "", known->form->efficiency.source);
  }
}

bool has(const std::vector<Gemm>& products, const Gemm& gemm) {
  return std::find(products.begin(), products.end(), gemm) != products.end();
}

/// Elements of the operands of the product whose forward or backward pass this is.
double operands_of(const JobRates& rates, const Gemm& gemm) {
  const auto m = static_cast<double>(gemm.m);
  const auto n = static_cast<double>(gemm.n);
  const auto k = static_cast<double>(gemm.k);
  const bool is_of_weights = has(rates.weight_gradients, gemm) && !has(rates.input_gradients, gemm);
  return (is_of_weights ? k * (n + m) : m * (k + n)) * static_cast<double>(gemm.count);
}

struct KernelSeconds {
  const JobRates& rates;
  bool is_update = false;  // of the optimizer
  double operator()(const Gemm& gemm) const {
    const std::array<std::int64_t, 3> shape{gemm.m, gemm.n, gemm.k};
    if (rates.precision != MatrixPrecision::bf16 && !rates.head_products.contains(shape)) {
      return gemm_seconds(rates.products, gemm, rates.precision) +
             memory_seconds(rates.rates, k_cast_bytes * operands_of(rates, gemm));
    }
    const auto measured = rates.measured_products.find(shape);
    return measured != rates.measured_products.end()
               ? measured->second * static_cast<double>(gemm.count)
               : gemm_seconds(rates.products, gemm, MatrixPrecision::bf16);
  }
  double operator()(const AttentionKernel& kernel) const {
    return rates.slower * attention_seconds(rates.rates, kernel);
  }
  double operator()(const MemoryKernel& kernel) const {
    const auto bytes = static_cast<double>(kernel.moved.value);
    return is_update ? rates.update_factor * bytes / rates.rates.memory_bandwidth
                     : memory_seconds(rates.rates, bytes);
  }
};

/// Bytes of the update in the runs that a basis comes from; of `own` runs where there are none.
double update_bytes(const RunBasis& basis, const RunFramework& own) {
  const std::vector<RunFramework>& all = known_names().frameworks;
  const auto lending = std::find_if(all.begin(), all.end(), [&](const RunFramework& each) {
    return each.name == framework_of_family(basis.family);
  });
  return lending == all.end() ? own.update_bytes : lending->update_bytes;
}

}  // namespace

JobRates job_rates(const Job& job, DType dtype, const Machine& machine, const RunCalibration& calibration) {
  TrainingRun run;
  run.hardware = machine_hardware(machine, job.layout.ranks);
  run.layout.ranks = job.layout.ranks;
  run.model.sequence = job.model.sequence;
  run.model.experts = job.model.experts;
  run.behaviour.has_fused_attention = job.train.attention != Attention::eager;
  run.behaviour.precision = dtype == DType::fp8 ? MatrixPrecision::fp8 : MatrixPrecision::bf16;
  const RunFramework* const framework = framework_for_job(job.framework, run.hardware.gpu, calibration);
  run.has_other_trainer = has_other_trainer(job.framework) && framework != own_framework(job.framework);
  run.family = family_of_run(run.hardware, framework->name, calibration);
  if (const Accelerator* const known = accelerator_of(machine); known != nullptr) {
    run.priors = known->priors;
  }
  run.priors.insert(run.priors.end(), framework->priors.begin(), framework->priors.end());
  const RunBasis choice = basis_of(run, calibration);
  JobRates result;
  result.spread = choice.spread;
  result.provenance = choice.provenance + peak_text(machine, run.hardware);
  result.rates = rates_of(run.hardware, choice.coefficients);
  const double peak = stated_peak(machine) > 0 ? stated_peak(machine) : run.hardware.peak;
  const bool is_wide = size_of(dtype) > 2;
  result.precision = run.behaviour.precision;
  const bool is_small = result.precision != MatrixPrecision::bf16;
  result.peak_of_dtype = peak_of(machine.processor, dtype)
                             .value_or(peak * (is_wide    ? k_half_peak
                                               : is_small ? k_small_peak
                                                          : 1));
  result.slower = is_wide ? peak / result.peak_of_dtype : 1;
  if (is_wide) {
    result.spread = std::max(result.spread, k_wide_spread);
    result.provenance += fmt::format(
        "; no run was in {}: products at {:.3g} TFLOP/s{}", name_of(dtype), result.peak_of_dtype / k_tera,
        peak_of(machine.processor, dtype) ? "" : ", as TF32 has it, which the machine file does not say");
  }
  result.products = result.rates;
  result.products.peak /= result.slower;
  use_machine_products(job, dtype, machine, result);
  result.head_products = head_shapes(job);
  const double kernels = kernels_of_layer(job);
  result.kernel_launch = choice.coefficients[Coefficient::layer_launch] * 1e-6 / kernels;
  result.kernel_floor = choice.coefficients[Coefficient::launch_floor] * 1e-6 / kernels;
  result.update_factor = choice.coefficients[Coefficient::optimizer_bytes] / update_bytes(choice, *framework);
  if (job.train.micro_batches > 1) {
    result.accumulate = framework->behaviour.accumulation_bytes / result.rates.memory_bandwidth;
  }
  result.weight_gradients = products_of(job, Pass::weight_gradient);
  result.input_gradients = products_of(job, Pass::input_gradient);
  result.tensor_shown = 1 - choice.coefficients[Coefficient::tensor_hidden];
  result.held_share = held_share(machine, run.hardware.processors);
  return result;
}

namespace {

/// Of adding up the gradients that a work makes. Of two products of one shape, of which one makes the
/// gradient of an input, each counts half.
double accumulation_seconds(const JobRates& rates, const PlanWork& work) {
  double parameters = 0;
  for (const Kernel& kernel : work.kernels) {
    const Gemm* const gemm = std::get_if<Gemm>(&kernel);
    if (gemm != nullptr && has(rates.weight_gradients, *gemm)) {
      parameters += static_cast<double>(gemm->m) * static_cast<double>(gemm->n) *
                    static_cast<double>(gemm->count) * (has(rates.input_gradients, *gemm) ? 0.5 : 1);
    }
  }
  return parameters * rates.accumulate;
}

}  // namespace

double work_seconds(const JobRates& rates, const PlanWork& work) {
  const KernelSeconds seconds_of{rates, work.phase == Phase::optimizer};
  double seconds = 0;
  for (const Kernel& kernel : work.kernels) {
    seconds += std::visit(seconds_of, kernel) + rates.kernel_launch;
  }
  seconds = std::max(seconds, rates.kernel_floor * static_cast<double>(work.kernels.size()));
  return work.phase == Phase::backward ? seconds + accumulation_seconds(rates, work) : seconds;
}

}  // namespace commlens
