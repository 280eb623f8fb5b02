#include "commlens/app/simulate.hpp"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "commlens/app/job_text.hpp"
#include "commlens/app/json_result.hpp"
#include "commlens/app/machine_choice.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/app/predict.hpp"
#include "commlens/app/version.hpp"
#include "commlens/base/file.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/machine/machines.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"
#include "commlens/simulate/timeline/machine_calls.hpp"
#include "commlens/trace/trace_directory.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

// Of a rank's memory beyond what a job asks for (docs/memory.md): what allocators keep, at most; the
// processes themselves; how far estimates were off where peaks were measured, -5.3 to +6.9 %.
constexpr double k_reserved = 1.06;
constexpr double k_process_bytes = 1e9;
constexpr double k_memory_error = 1.07;
constexpr double k_gib = 1024.0 * 1024 * 1024;

constexpr std::int64_t k_most_simulated = 100;

Estimate memory_figure(const SimulatedJob& result) {
  const auto used = static_cast<double>(result.memory.total().value);
  return {used, used / k_memory_error, used * k_memory_error * k_reserved + k_process_bytes};
}

Result<SimulatedJob> simulated_on(const SimulateRequest& request, Machine machine, const Plan& plan) {
  return lender_of(machine).and_then([&](const std::optional<Machine>& lender) {
    const Machine* const lends = lender ? &*lender : nullptr;
    return library_on(request.library, machine, lends).and_then([&](const Library& library) {
      SimulationOptions options;
      options.machine = &machine;
      options.lender = lends;
      options.library = library;
      options.dtype = compute_dtype_of(plan.job);
      options.jitter = request.jitter;
      options.overlaps_tensor = request.overlaps_tensor;
      options.contention = request.contention;
      options.iterations = request.overrides.iterations.value_or(1);
      options.collapse = request.collapse;
      return run_calibration(request.calibration)
          .and_then([&](const RunCalibration& calibration) { return simulated(plan, options, calibration); })
          .map([&](Simulation simulation) {
            return SimulatedJob{plan.job,
                                plan.tables.provenance.framework,
                                machine,
                                std::move(simulation),
                                memory_per_rank(plan.job),
                                plan.unverified};
          });
    });
  });
}

std::string share_text(double share) { return fmt::format("{:.1f} %", share * 100); }
std::string seconds_text(double seconds) {
  return to_text(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
}

void write_trace_of(const SimulateRequest& request, SimulatedJob& result) {
  Provenance& provenance = result.simulation.trace.provenance;
  provenance.producer = fmt::format("commlens {}", k_version);
  provenance.framework = result.framework;
  provenance.description = fmt::format(
      "{}, {}, on {} ({}), {}; an iteration takes {} (90 % interval {} to {}), {} MFU; kernels: {}",
      parameters_text(result.job.model), layout_text(result.job), result.machine.name, result.machine.title,
      result.simulation.library, seconds_text(result.simulation.seconds.value),
      seconds_text(result.simulation.seconds.low), seconds_text(result.simulation.seconds.high),
      share_text(result.simulation.mfu.value), result.simulation.compute_provenance);
  write_trace(result.simulation.trace, request.trace);
}

/// What can be known to fail before the work.
Result<void> check_simulated(const SimulateRequest& request) {
  const std::int64_t iterations = request.overrides.iterations.value_or(1);
  if (iterations < 1 || iterations > k_most_simulated) {
    return failure(
        fmt::format("--iterations {}: between 1 and {} are simulated", iterations, k_most_simulated));
  }
  if (request.trace.empty()) {
    return {};
  }
  if (const Result<void> usable = check_trace_target(request.trace); !usable) {
    return failure("--trace " + usable.error().message);
  }
  std::vector<std::string> inputs = request.config;
  inputs.insert(inputs.end(), {request.machine, request.calibration});
  return check_directory_place("--trace", request.trace).and_then([&] {
    return check_apart("--trace", request.trace, inputs);
  });
}

Table calls_table(const SimulatedJob& result) {
  Table table(
      columns({"op", "axis", "calls_per_rank", "exposed_s", "exposed_low_s", "exposed_high_s",
               Column{.key = "moving_s", .drop_first = 2}, Column{.key = "moving_low_s", .drop_first = 1},
               Column{.key = "moving_high_s", .drop_first = 1}, Column{.key = "provenance", .least = 12}}));
  for (const SimulatedCalls& calls : result.simulation.calls) {
    table.add({name_of(calls.op), calls.axis.name(), calls.calls, calls.exposed.value, calls.exposed.low,
               calls.exposed.high, calls.moving.value, calls.moving.low, calls.moving.high,
               provenance_text(CollectiveTime{.source = calls.source, .source_of = calls.source_of})});
  }
  return table;
}

using FigureText = std::string (*)(double);

std::string line_of(std::string_view name, const Estimate& figure, FigureText text, double of = 0) {
  const std::string share = of > 0 ? fmt::format(", {} of it", share_text(figure.value / of)) : "";
  return fmt::format("{:<20} {:>12}   ({} to {}){}\n", name, text(figure.value), text(figure.low),
                     text(figure.high), share);
}

std::string head_text(const SimulatedJob& result, const TextStyle& style) {
  const Simulation& simulation = result.simulation;
  const double whole = simulation.seconds.value;
  std::string text = parameters_text(result.job.model) + ", " + layout_text(result.job) + "\n";
  text += fmt::format("{} on {} ({}), {}; 90 % intervals\n", result.framework, result.machine.name,
                      result.machine.title, simulation.library);
  text += fmt::format("kernels: {}\n", simulation.compute_provenance);
  if (simulation.contention != Contention::none) {
    text += fmt::format(
        "links are shared: {}{}{}\n", name_of(simulation.contention),
        simulation.assumptions.empty() ? "" : "; taken to be so: ", fmt::join(simulation.assumptions, "; "));
  }
  if (!result.unverified.empty()) {
    text += fmt::format("unverified: {}\n", fmt::join(result.unverified, "; "));
  }
  text = wrapped(text, style) + "\n";
  text += line_of(simulation.iterations == 1 ? "iteration" : fmt::format("mean of {}", simulation.iterations),
                  simulation.seconds, seconds_text);
  text += line_of("tokens/s of a rank", simulation.tokens_per_second,
                  [](double value) { return with_commas(static_cast<std::int64_t>(value)); });
  text += line_of("MFU", simulation.mfu, share_text);
  text += line_of("computing", simulation.compute, seconds_text, whole);
  text += line_of("exposed calls", simulation.exposed, seconds_text, whole);
  text += line_of("bubble and waiting", simulation.waiting, seconds_text, whole);
  text += line_of("memory of a rank", memory_figure(result),
                  [](double bytes) { return to_text(Bytes{static_cast<std::int64_t>(bytes)}); });
  const double device = result.machine.processor.memory ? result.machine.processor.memory->value * k_gib : 0;
  if (device > 0 && memory_figure(result).low > device) {
    text += fmt::format("That is more than the {} of {}: the job does not fit.\n",
                        to_text(Bytes{static_cast<std::int64_t>(device)}), result.machine.processor.name);
  }
  return text + "\n";
}

Json figure_json(const Estimate& figure) {
  return {{"value", figure.value}, {"low", figure.low}, {"high", figure.high}};
}

Json document_of(const SimulatedJob& result) {
  const Simulation& simulation = result.simulation;
  return {{"schema", "commlens.simulate/1"},
          {"model", parameters_text(result.job.model)},
          {"layout_text", layout_text(result.job)},
          {"framework", result.framework},
          {"verified", result.unverified.empty()},
          {"unverified", result.unverified},
          {"machine", result.machine.name},
          {"machine_title", result.machine.title},
          {"processor", result.machine.processor.name},
          {"library", simulation.library},
          {"contention", name_of(simulation.contention)},
          {"link_assumptions", simulation.assumptions},
          {"rank_count", result.job.layout.ranks},
          {"iteration", simulation.iteration},
          {"iteration_count", simulation.iterations},
          {"interval_share", .9},
          {"iteration_s", figure_json(simulation.seconds)},
          {"tokens_per_s_per_rank", figure_json(simulation.tokens_per_second)},
          {"mfu", figure_json(simulation.mfu)},
          {"compute_s", figure_json(simulation.compute)},
          {"exposed_s", figure_json(simulation.exposed)},
          {"waiting_s", figure_json(simulation.waiting)},
          {"memory_bytes", figure_json(memory_figure(result))},
          {"kernels", simulation.compute_provenance},
          {"calls", rows_json(calls_table(result))}};
}

}  // namespace

DType compute_dtype_of(const Job& job) {
  const auto computes_in = rules_of(job).settings.compute_dtype;
  return computes_in == nullptr ? job.train.dtype : computes_in(job);
}

Result<SimulatedJob> simulate(const SimulateRequest& request) {
  if (const Result<void> usable = check_simulated(request); !usable) {
    return tl::unexpected(usable.error());
  }
  PredictRequest planned;
  planned.config = request.config;
  planned.framework = request.framework;
  planned.overrides = request.overrides;
  planned.overrides.iterations.reset();  // steady ones are repeated, whatever comes before and after them
  planned.events = request.events;
  return find_machine(request.machine).and_then([&](Machine machine) {
    return plan_of(planned).and_then([&](const Plan& plan) {
      return simulated_on(request, std::move(machine), plan).map([&](SimulatedJob result) {
        if (!request.trace.empty()) {
          write_trace_of(request, result);
        }
        return result;
      });
    });
  });
}

std::string rendered(const SimulatedJob& result, Format format, const TextStyle& style) {
  const Table table = calls_table(result);
  return in_format(
      format, [&] { return head_text(result, style) + table.text_with_hidden(style); },
      [&] { return document_of(result); }, [&] { return table.csv(); });
}

}  // namespace commlens
