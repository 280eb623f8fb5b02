#include "commlens/app/export_trace.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/app/output_place.hpp"
#include "commlens/app/predict.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/base/text.hpp"
#include "commlens/formats/formats.hpp"
#include "commlens/formats/io/write_stream.hpp"
#include "commlens/formats/write_export.hpp"
#include "commlens/report/coverage_report.hpp"

namespace commlens {
namespace {

/// The number of lines of the file, saturated.
std::int64_t line_count(const Trace& trace, const formats::CallSelection& selection) {
  double lines = 0;
  for (const RankStream& stream : trace.streams) {
    const std::int64_t ranks = !selection.rank                          ? stream.ranks.count()
                               : stream.ranks.contains(*selection.rank) ? 1
                                                                        : 0;
    const std::size_t of_rank = stream.events.size() + (selection.compute ? stream.compute.size() : 0);
    lines += static_cast<double>(of_rank) * static_cast<double>(ranks);
  }
  return static_cast<std::int64_t>(std::min(lines, 9.0e18));
}

/// Refuses options that the exporter does not support.
Result<void> check_request(const formats::Exporter& exporter, const ExportRequest& request) {
  if (request.rank && !exporter.takes_rank) {
    return failure(fmt::format("--rank goes with --to {}; {} has all ranks",
                               exporters_with(&formats::Exporter::takes_rank), request.format));
  }
  if (request.compute && !exporter.takes_compute) {
    return failure(fmt::format("--compute goes with --to {}, not with {}",
                               exporters_with(&formats::Exporter::takes_compute), request.format));
  }
  if (request.file.empty() && exporter.stream == nullptr) {
    return failure(fmt::format("--to {} writes a {}; name it with -o", request.format,
                               exporter.directory != nullptr ? "directory" : "file"));
  }
  if (request.file.empty()) {
    return request.sink ? Result<void>() : failure("-o: name a file");
  }
  const auto check_place = exporter.directory != nullptr ? check_directory_place : check_file_place;
  return check_place("-o", request.file).and_then([&] {
    return check_apart("-o", request.file, request.input);
  });
}

/// Refuses a trace that the format cannot hold.
Result<void> check_trace(const Trace& trace, const ExportRequest& request) {
  if (trace.provenance.accounting == Accounting::comms_logger) {
    return failure(fmt::format(
        "{}: a printed log has rounded sizes and no groups; calls cannot carry them; export it from a trace "
        "that does",
        shown_name(request.input.front())));
  }
  if (request.rank && trace.stream_of(*request.rank) == nullptr) {
    return failure(fmt::format("--rank {}: the trace has no calls of that rank, its highest is {}",
                               request.rank->value, trace.ranks() - 1));
  }
  return {};
}

Result<void> write(const formats::Exporter& exporter, const Trace& trace, const StepOrder* order,
                   const ExportRequest& request) {
  const formats::CallSelection selection{.rank = request.rank, .compute = request.compute, .order = order};
  const bool is_lines = exporter.takes_compute;  // one line per call
  Task task(request.events, fmt::format("writing {}", request.format),
            is_lines ? line_count(trace, selection) : 0);
  if (exporter.stream == nullptr) {
    return formats::write_export(exporter, trace, selection, request.file);
  }
  const auto write_to = [&](const formats::TextSink& sink) {
    return exporter.stream(trace, selection, [&](std::string_view block) {
      sink(block);
      task.add(is_lines ? std::count(block.begin(), block.end(), '\n') : 0);
    });
  };
  return request.file.empty() ? write_to(request.sink) : formats::try_write_stream(request.file, write_to);
}

Result<void> export_recorded(const formats::Exporter& exporter, const ExportRequest& request) {
  const std::string& name = request.input.front();
  if (!request.framework.empty() || request.overrides != Overrides()) {
    return failure(
        fmt::format("{} is a trace: --framework and the layout flags are for configurations; leave them out",
                    shown_name(name)));
  }
  const Result<Trace> trace = open_trace(request.events, name);
  if (!trace) {
    return tl::unexpected(trace.error());
  }
  if (const Result<void> checked = check_trace(*trace, request); !checked) {
    return checked;
  }
  warn_of_lost_calls(request.events, name, *trace);
  if (trace->provenance.averaged_times) {
    request.events.warn(fmt::format("the times of {} are {}", shown_name(name), k_averages_text));
  }
  return write(exporter, *trace, nullptr, request);
}

Result<void> export_predicted(const formats::Exporter& exporter, const ExportRequest& request) {
  if (request.compute) {
    return failure("--compute: a prediction has no times; leave it out");
  }
  const Result<Plan> plan =
      plan_of({request.input, request.framework, request.overrides, {}, request.events});
  if (!plan) {
    return tl::unexpected(plan.error());
  }
  const Result<std::vector<Iteration>> iterations = planned_iterations(*plan);
  if (!iterations) {
    return tl::unexpected(iterations.error());
  }
  if (request.rank && request.rank->value >= plan->job.layout.ranks) {
    return failure(
        fmt::format("--rank {}: the job has ranks 0 to {}", request.rank->value, plan->job.layout.ranks - 1));
  }
  if (exporter.takes_rank && !request.file.empty()) {
    if (const Result<void> few =
            check_written_calls(*plan, request.rank, fmt::format("--to {}", request.format));
        !few) {
      return tl::unexpected(few.error());
    }
  }
  if (!plan->unverified.empty()) {
    request.events.warn(fmt::format("by the rules of {}; unverified: {}", plan->tables.provenance.framework,
                                    fmt::join(plan->unverified, "; ")));
  }
  const Trace trace = plan->trace_of(*iterations);
  const StepOrder order = plan->order_of(*iterations);
  return write(exporter, trace, &order, request);
}

}  // namespace

Result<void> export_trace(const ExportRequest& request) {
  const formats::Exporter* const exporter = formats::exporter_named(request.format);
  if (exporter == nullptr) {
    return failure(fmt::format("--to {}: there is no such format", request.format));
  }
  if (const Result<void> checked = check_request(*exporter, request); !checked) {
    return checked;
  }
  if (request.input.empty()) {
    return failure("there is nothing to export: name a trace or a configuration");
  }
  const bool is_trace = names_trace(request.input.front());
  if (is_trace && request.input.size() > 1) {
    return failure(fmt::format("{} is a trace; one is exported at a time", request.input.front()));
  }
  return is_trace ? export_recorded(*exporter, request) : export_predicted(*exporter, request);
}

std::string exporters_with(bool formats::Exporter::* property) {
  std::string names;
  for (const formats::Exporter& each : formats::exporters()) {
    names += each.*property ? fmt::format("{}{}", names.empty() ? "" : ", ", each.name) : "";
  }
  return names;
}

}  // namespace commlens
