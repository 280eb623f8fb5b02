#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "commlens/app/calibrate.hpp"
#include "commlens/app/calibrate_products.hpp"
#include "commlens/app/machine_choice.hpp"
#include "commlens/app/predict.hpp"
#include "commlens/app/residuals.hpp"
#include "commlens/app/simulate.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/formats/kineto/products.hpp"
#include "commlens/machine/product_fields.hpp"
#include "commlens/simulate/timeline/job_rates.hpp"
#include "commlens/trace/training_steps.hpp"

namespace commlens {
namespace {

constexpr double k_least_efficiency = 0.01;
constexpr std::size_t k_fewest_steps = 3;
constexpr int k_halvings = 30;  // of the logarithm of the efficiency: far below what is measured

struct TracedShapes {
  std::vector<MeasuredProduct> products;
  std::int64_t without_shape = 0;
  std::int64_t without_kernel = 0;
};

/// Shapes of products in those of the files that are traces of torch.profiler. None in any of them: other
/// traces, which have none. Fails on a file that is not there, and on one that has none beside others that
/// do.
Result<TracedShapes> traced_shapes(const std::vector<std::string>& files) {
  TracedShapes all;
  std::string error;  // of the first file without shapes
  if (const std::string twice = given_twice(files); !twice.empty()) {
    return failure(fmt::format("{}: is given twice", twice));
  }
  for (const std::string& file : files) {
    std::error_code unreadable;
    if (!std::filesystem::exists(file, unreadable)) {
      return failure(fmt::format("{}: no such file or directory", file));
    }
    const Result<formats::kineto::TracedProducts> read =
        std::filesystem::is_regular_file(file, unreadable) ? formats::kineto::read_products(file)
                                                           : failure(fmt::format("{}: is a directory", file));
    if (!read) {
      error = error.empty() ? read.error().message : error;
      continue;
    }
    for (std::size_t index = 0; index < read->products.size(); ++index) {
      const formats::kineto::TracedProduct& traced = read->products[index];
      all.products.push_back({traced.dtype,
                              {traced.m, traced.n, traced.k, static_cast<double>(traced.duration_ns) * 1e-3},
                              fmt::format("{} product {}", file, index + 1)});
    }
    all.without_shape += read->without_shape;
    all.without_kernel += read->without_kernel;
  }
  return all.products.empty() || error.empty() ? Result<TracedShapes>(std::move(all)) : failure(error);
}

/// Seconds of a measured iteration: the middle one, the 5th and the 95th percentile.
Result<Estimate> measured_iteration(const Trace& trace, const std::string& name) {
  std::map<Iteration, double> slowest;  // over ranks
  for (const RankStream& stream : trace.streams) {
    for (const Step& step : steps_after(cold_iteration(trace), stream)) {
      double& seconds = slowest[step.iteration];
      seconds = std::max(seconds, std::chrono::duration<double>(step.length).count());
    }
  }
  std::vector<double> seconds;
  for (const auto& [iteration, length] : slowest) {
    seconds.push_back(length);
  }
  std::sort(seconds.begin(), seconds.end());
  if (seconds.size() < k_fewest_steps || seconds.front() <= 0) {
    return failure(fmt::format(
        "{}: times of {} iterations after the first; an efficiency needs {} (and torch.profiler with "
        "record_shapes=True gives shapes of products)",
        name, seconds.size(), k_fewest_steps));
  }
  const auto at = [&](double share) {
    return seconds[static_cast<std::size_t>(std::llround(share * static_cast<double>(seconds.size() - 1)))];
  };
  return Estimate{at(.5), at(.05), at(.95)};
}

/// A job on a machine whose products' efficiency is looked for.
struct EfficiencySearch {
  const Plan& plan;
  SimulationOptions options;
  Machine machine;
  ProductTimes products;

  Result<double> seconds(double efficiency) {
    products.form->efficiency.value = efficiency;
    put_products(machine.processor, products);
    options.machine = &machine;
    return run_calibration("").and_then([&](const RunCalibration& calibration) {
      return simulated(plan, options, calibration).map([](const Simulation& simulation) {
        return simulation.seconds.value;
      });
    });
  }

  /// The efficiency with which an iteration takes so many seconds; outside the limits: the nearest limit.
  Result<double> efficiency_of(double wanted) {
    double low = std::log(k_least_efficiency);
    double high = 0;
    std::string error;
    for (int halving = 0; halving < k_halvings && error.empty(); ++halving) {
      const double middle = (low + high) / 2;
      const Result<double> taken = seconds(std::exp(middle));
      error = taken ? "" : taken.error().message;
      (taken && *taken > wanted ? low : high) = middle;
    }
    return error.empty() ? Result<double>(std::exp((low + high) / 2)) : failure(error);
  }
};

/// Why no efficiency gives that time; empty: one does.
Result<void> check_reachable(EfficiencySearch& search, double measured, const std::string& name) {
  return search.seconds(1).and_then([&](double shortest) {
    return search.seconds(k_least_efficiency).and_then([&](double longest) -> Result<void> {
      if (measured < shortest || measured > longest) {
        return failure(
            fmt::format("{}: an iteration takes {:.4g} s; with products from the peak down to {:g} of it the "
                        "job would take "
                        "{:.4g} to {:.4g} s: another job or machine?",
                        name, measured, k_least_efficiency, shortest, longest));
      }
      return {};
    });
  });
}

ProductTimes start_of_search(const CalibrateProductsRequest& request, const Machine& machine,
                             const JobRates& rates, DType dtype) {
  const ProductTimes* const known = known_products(machine.processor, dtype);
  if (known != nullptr && known->form) {
    return *known;
  }
  const auto number = [&](double value, const char* unit) {
    return Quantity{value, unit, "commlens: " + rates.provenance, 'D'};
  };
  ProductTimes start;
  start.dtype = dtype;
  if (known != nullptr) {
    start = *known;  // its shapes
  }
  start.form =
      ProductForm{number(rates.products.gemm_efficiency, "share"), number(0, "us"),
                  number(rates.products.half_inner, "elements"), number(rates.products.wave_weight, "share"),
                  number(rates.products.processors, "multiprocessors")};
  if (request.processors > 0) {
    start.form->processors = {static_cast<double>(request.processors), "multiprocessors", "--multiprocessors",
                              'C'};
  }
  return start;
}

Result<CalibratedProducts> fitted_efficiency(const CalibrateProductsRequest& request, EfficiencySearch search,
                                             const Estimate& measured) {
  const std::string& name = request.files.front();
  if (const Result<void> reachable = check_reachable(search, measured.value, name); !reachable) {
    return tl::unexpected(reachable.error());
  }
  const Result<double> efficiency = search.efficiency_of(measured.value);
  const Result<double> low = search.efficiency_of(measured.high);
  const Result<double> high = search.efficiency_of(measured.low);
  if (!efficiency || !low || !high) {
    return tl::unexpected(!efficiency ? efficiency.error() : !low ? low.error() : high.error());
  }
  search.products.form->efficiency = {
      *efficiency, "share",
      fmt::format("{}: {:.4g} s an iteration ({:.4g} to {:.4g}), with which efficiencies from "
                  "{:.3f} to {:.3f} agree",
                  source_of_numbers(request.source, {name}), measured.value, measured.low, measured.high,
                  *low, *high),
      'D'};
  put_products(search.machine.processor, search.products);
  return CalibratedProducts{
      search.machine,
      {},
      {fmt::format("{}: efficiency {:.3f} ({:.3f} to {:.3f}), of {:.4g} s an iteration ({:.4g} to {:.4g})",
                   name_of(search.products.dtype), *efficiency, *low, *high, measured.value, measured.low,
                   measured.high)}};
}

/// The job of the trace on the machine, and where its search for an efficiency starts.
Result<CalibratedProducts> searched_efficiency(const CalibrateProductsRequest& request,
                                               const Machine& machine, const Plan& plan,
                                               const Estimate& measured) {
  const Result<std::optional<Machine>> lender = lender_of(machine);
  const Result<RunCalibration> calibration = run_calibration("");
  if (!lender || !calibration) {
    return tl::unexpected(!lender ? lender.error() : calibration.error());
  }
  SimulationOptions options;
  options.lender = *lender ? &**lender : nullptr;
  options.dtype = compute_dtype_of(plan.job);
  options.has_intervals = false;
  const Result<Library> library = library_on("", machine, options.lender);
  if (!library) {
    return tl::unexpected(library.error());
  }
  options.library = *library;
  if (!peak_of(machine.processor, options.dtype)) {
    return failure(fmt::format("machine {}: an efficiency of products in {} needs processor.peaks.{}",
                               machine.name, name_of(options.dtype), name_of(options.dtype)));
  }
  const JobRates rates = job_rates(plan.job, options.dtype, machine, *calibration);
  ProductTimes start = start_of_search(request, machine, rates, options.dtype);
  return fitted_efficiency(request, {plan, options, machine, std::move(start)}, measured);
}

Result<CalibratedProducts> efficiency_from_iterations(const CalibrateProductsRequest& request,
                                                      const Machine& machine) {
  const std::string& name = request.files.front();
  if (request.files.size() > 1) {
    return failure(fmt::format("{}: without shapes of products one training is fitted at a time", name));
  }
  if (request.config.empty()) {
    return failure(fmt::format(
        "{}: no shapes of products (torch.profiler's record_shapes=True): give the job's configuration with "
        "--config, and its iterations give an efficiency",
        name));
  }
  PredictRequest planned;
  planned.config = request.config;
  planned.framework = request.framework;
  planned.events = request.events;
  return open_trace(request.events, name)
      .and_then([&](const Trace& trace) { return measured_iteration(trace, name); })
      .and_then([&](const Estimate& measured) {
        return plan_of(planned).and_then(
            [&](const Plan& plan) { return searched_efficiency(request, machine, plan, measured); });
      });
}

}  // namespace

Result<CalibratedProducts> calibrate_from_training(const CalibrateProductsRequest& request) {
  return machine_of_products(request).and_then([&](const Machine& machine) {
    return traced_shapes(request.files).and_then([&](TracedShapes shapes) {
      if (shapes.products.empty()) {
        return efficiency_from_iterations(request, machine);
      }
      if (shapes.without_shape + shapes.without_kernel > 0) {
        request.events.warn(fmt::format("{} products without shapes and {} without kernels are left out",
                                        shapes.without_shape, shapes.without_kernel));
      }
      ProductFitInput input{machine, std::move(shapes.products), {}};
      input.keeps_unfit = true;
      return fitted_products(request, std::move(input));
    });
  });
}

}  // namespace commlens
