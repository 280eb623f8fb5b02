#include "commlens/app/calibrate.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "commlens/app/residuals.hpp"
#include "commlens/app/sweep_machine.hpp"
#include "commlens/base/file.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/formats/import_any.hpp"
#include "commlens/formats/nccl_tests/import.hpp"
#include "commlens/machine/cost/collective.hpp"
#include "commlens/machine/cost/library.hpp"
#include "commlens/machine/machines.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_most_sweep_bytes = std::int64_t{256} << 20;

/// The times of a benchmark's output, whose rows are calls of one rank. In place and out of place are
/// different measurements; the latter are taken, as sweeps have them.
Result<SweepFile> points_of_trace(const std::string& file, const Trace& trace) {
  SweepFile result;
  std::int64_t row = 0;
  const std::string& producer = trace.provenance.producer;
  const bool is_mpi = producer.find("OSU") != std::string::npos || producer.find("MPI") != std::string::npos;
  for (const RankStream& stream : trace.streams) {
    for (std::size_t index = 0; index < stream.events.size() && index < stream.times.size(); ++index) {
      const CommOp& op = trace.op(stream.events[index].op);
      ++row;
      if (trace.tags.text(op.tag) == "in-place" || op.kind == CommKind::other ||
          op.kind == CommKind::barrier) {
        continue;
      }
      SweepPoint point;
      point.call = {op.kind, message_bytes(op), op.dtype, {trace.groups.size(op.group), 1}};
      point.us = std::chrono::duration<double, std::micro>(stream.times[index].finished -
                                                           stream.times[index].started)
                     .count();
      point.library = is_mpi ? "mpi" : "";
      point.algorithm = is_mpi ? "any" : "";
      point.where = fmt::format("{} row {}", file, row);
      if (point.call.bytes.value > 0) {
        result.points.push_back(std::move(point));
      }
    }
  }
  return result.points.empty() ? failure(fmt::format("{}: no time of a collective of known size", file))
                               : Result<SweepFile>(std::move(result));
}

Result<SweepFile> read_sweep(const std::string& file) {
  std::error_code unreadable;
  const auto size = std::filesystem::file_size(file, unreadable);
  if (!unreadable && size == 0) {
    return failure(fmt::format("{}: is empty", file));
  }
  if (std::filesystem::is_directory(file, unreadable)) {
    return formats::import_any(file).and_then(
        [&](const Trace& trace) { return points_of_trace(file, trace); });
  }
  return read_text_file(file, k_most_sweep_bytes)
      .and_then([&](const std::string& content) -> Result<SweepFile> {
        if (is_sweep_csv(content)) {
          return parse_sweep_csv(file, content);
        }
        return formats::import_any(file)
            .and_then([&](const Trace& trace) { return points_of_trace(file, trace); })
            .map([&](SweepFile sweep) {
              const std::string device = formats::nccl_tests::device_named(content);
              for (SweepPoint& point : sweep.points) {
                point.device = device;
              }
              return sweep;
            });
      });
}

Result<SweepFile> read_sweeps(const std::vector<std::string>& files) {
  SweepFile all;
  std::string error;
  if (const std::string twice = given_twice(files); !twice.empty()) {
    return failure(fmt::format("{}: is given twice", twice));
  }
  for (const std::string& file : files) {
    const Result<SweepFile> read = read_sweep(file);
    if (!read) {
      error = read.error().message;
      break;
    }
    all.points.insert(all.points.end(), read->points.begin(), read->points.end());
    all.notes.insert(all.notes.end(), read->notes.begin(), read->notes.end());
  }
  return error.empty() ? Result<SweepFile>(std::move(all)) : failure(error);
}

/// What the files leave open, from the request and the machine. Fails where ranks do not fill nodes.
Result<void> complete(std::vector<SweepPoint>& points, const Library& library, std::int64_t per_node) {
  for (SweepPoint& point : points) {
    Placement& place = point.call.place;
    point.library = point.library.empty() ? library.name : point.library;
    point.version = point.version.empty() && point.library == library.name ? library.version : point.version;
    if (!point.has_nodes && place.ranks > per_node) {
      if (place.ranks % per_node != 0) {
        return failure(
            fmt::format("{}: {} ranks do not fill nodes of {}; --gpus-per-node says how many of "
                        "them are on a node",
                        point.where, place.ranks, per_node));
      }
      place.nodes = place.ranks / per_node;
    }
  }
  return {};
}

Result<CalibrateResult> fitted(const CalibrateRequest& request, const Library& library, SweepFile sweep,
                               const Machine& machine) {
  const std::int64_t per_node = request.ranks_per_node > 0
                                    ? request.ranks_per_node
                                    : static_cast<std::int64_t>(machine.ranks_per_node.value);
  if (const Result<void> completed = complete(sweep.points, library, per_node); !completed) {
    return tl::unexpected(completed.error());
  }
  std::optional<Machine> shape;
  if (!request.shape_from.empty()) {
    if (const Result<Machine> found = find_machine(request.shape_from)) {
      shape = *found;
    } else {
      return tl::unexpected(found.error());
    }
  }
  const CalibrationInput input{machine, std::move(sweep.points),
                               source_of_numbers(request.source, request.files), library.version,
                               shape ? &*shape : nullptr};
  return calibrated(input).and_then([&](const CalibrationOutput& output) -> Result<CalibrateResult> {
    for (const std::string& note : concatenated(sweep.notes, output.notes)) {
      request.events.warn(note);
    }
    if (request.held_out.empty()) {
      return CalibrateResult{output.machine, output.errors, {}};
    }
    return read_sweeps(request.held_out).and_then([&](SweepFile held) {
      return complete(held.points, library, per_node)
          .and_then([&] { return errors_of(output.machine, held.points, library.version); })
          .map([&](const std::vector<PairError>& errors) {
            return CalibrateResult{output.machine, output.errors, errors};
          });
    });
  });
}

Table residual_table(const CalibrateResult& result) {
  Table table(columns({"rows_are", "library", "op", "algorithm", "protocol", "between_nodes", "points",
                       "median_error_share", "p90_error_share", "worst_error_share",
                       Column{.key = "worst_at", .least = 10}}));
  const auto add = [&](const char* which, const std::vector<PairError>& errors) {
    for (const PairError& error : errors) {
      table.add({which, error.library, name_of(error.op), error.algorithm, error.protocol,
                 error.several_nodes, error.rows, error.median, error.p90, error.worst, error.worst_at});
    }
  };
  add("fitted", result.fitted);
  add("held out", result.held_out);
  return table;
}

}  // namespace

std::string given_twice(const std::vector<std::string>& files) {
  std::set<std::string> seen;
  for (const std::string& file : files) {
    std::error_code unreadable;
    if (!seen.insert(std::filesystem::weakly_canonical(file, unreadable).string()).second) {
      return file;
    }
  }
  return "";
}

Result<CalibrateResult> calibrate(const CalibrateRequest& request) {
  if (request.files.empty()) {
    return failure("calibrate needs at least one file of measured times");
  }
  return library_from(request.library.empty() ? "nccl" : request.library)
      .and_then([&](const Library& library) {
        return read_sweeps(request.files).and_then([&](const SweepFile& sweep) {
          return machine_of_sweep(request.machine, sweep.points, request.events)
              .and_then([&](const Machine& machine) {
                Library measured = library;
                if (request.library.empty() && runs_on("rccl", machine.processor.architecture)) {
                  measured.name = "rccl";
                }
                return fitted(request, measured, sweep, machine);
              });
        });
      });
}

std::string rendered(const CalibrateResult& result, Format format, const TextStyle& style) {
  return rendered_residuals(result.machine, {}, residual_table(result), format, style);
}

}  // namespace commlens
