#include "commlens/app/cost.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "commlens/app/json_result.hpp"
#include "commlens/app/layout_options.hpp"
#include "commlens/app/machine_choice.hpp"
#include "commlens/base/file.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/machine/calibrate/sweep.hpp"
#include "commlens/machine/cost/restriction.hpp"
#include "commlens/machine/cost/tuning_log.hpp"
#include "commlens/machine/machines.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"
#include "commlens/simulate/timeline/machine_calls.hpp"

namespace commlens {
namespace {

/// Algorithms of MPI, which has names of its own.
std::vector<std::string> lower_words(const std::string& text) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return lower.empty() ? std::vector<std::string>() : comma_list(lower);
}

Result<CommKind> timed_operation(const std::string& name) {
  const std::optional<CommKind> op = timed_kind_from(name);
  if (!op || *op == CommKind::barrier || *op == CommKind::other) {
    return failure(
        fmt::format("'{}' is no operation with a time; choose all_reduce, all_gather, reduce_scatter, "
                    "all_to_all, broadcast, reduce, send or recv",
                    name));
  }
  return *op;
}

Result<TimedCall> call_of(const CostRequest& request, const Machine& machine) {
  return timed_operation(request.op).and_then([&](CommKind op) -> Result<TimedCall> {
    const std::optional<DType> type = element_type_from(request.dtype);
    if (!type) {
      return failure(fmt::format("--dtype {}: is no element type", request.dtype));
    }
    if (request.ranks < 1) {
      return failure("--ranks must be at least 1");
    }
    if (is_point_to_point(op) && request.ranks != 2) {
      return failure(fmt::format("{} is between 2 ranks, not {}", request.op, request.ranks));
    }
    const auto most = static_cast<std::int64_t>(machine.ranks_per_node.value);
    const std::int64_t per_node = request.ranks_per_node > 0 ? request.ranks_per_node : most;
    if (per_node > most) {
      return failure(fmt::format("--gpus-per-node {}: a node of {} has {}", per_node, machine.name, most));
    }
    if (request.ranks > per_node && request.ranks % per_node != 0) {
      return failure(
          fmt::format("--ranks {}: is no multiple of the {} ranks of a node", request.ranks, per_node));
    }
    return TimedCall{op, {}, *type, {request.ranks, std::max<std::int64_t>(request.ranks / per_node, 1)}};
  });
}

/// A library with what is asked of it, and the words that were taken from the environment.
struct AskedLibrary {
  Library library;
  std::vector<std::string> from_environment;  // "NCCL_ALGO=ring"
};

/// A flag, else the variable of the environment.
std::string flag_or_variable(const std::string& flag, const char* name, const std::string& value,
                             std::vector<std::string>& used) {
  if (flag.empty() && !value.empty()) {
    used.push_back(fmt::format("{}={}", name, value));
    return value;
  }
  return flag;
}

Error naming_variable(const std::vector<std::string>& used, std::string_view name, const Error& error) {
  const bool is_variable =
      std::any_of(used.begin(), used.end(), [&](const std::string& word) { return word.starts_with(name); });
  return is_variable ? Error{fmt::format("{} of the environment: {}", name, error.message)} : error;
}

Result<AskedLibrary> restricted(AskedLibrary asked, const CostRequest& request, CommKind op) {
  Library& library = asked.library;
  if (library.name == "mpi") {
    library.algorithms = lower_words(request.algorithms);
    library.protocols = lower_words(request.protocols);
    return asked;
  }
  std::vector<std::string>& used = asked.from_environment;
  const std::string algorithms =
      flag_or_variable(request.algorithms, "NCCL_ALGO", request.environment_algorithms, used);
  const std::string protocols =
      flag_or_variable(request.protocols, "NCCL_PROTO", request.environment_protocols, used);
  const auto kept_algorithms = algorithms_left(algorithms, op);
  const auto kept_protocols = protocols_left(protocols, op);
  if (!kept_algorithms || !kept_protocols) {
    return tl::unexpected(!kept_algorithms ? naming_variable(used, "NCCL_ALGO", kept_algorithms.error())
                                           : naming_variable(used, "NCCL_PROTO", kept_protocols.error()));
  }
  library.algorithms = *kept_algorithms;
  library.protocols = *kept_protocols;
  return asked;
}

Result<AskedLibrary> asked_library(const CostRequest& request, CommKind op, const Machine& machine,
                                   const Machine* lender) {
  return library_on(request.library, machine, lender).and_then([&](Library library) {
    return restricted({std::move(library), {}}, request, op);
  });
}

Result<std::vector<TunedPair>> tuned_pairs(const std::string& file) {
  if (file.empty()) {
    return std::vector<TunedPair>();
  }
  constexpr std::int64_t most = std::int64_t{256} << 20;
  return read_text_file(file, most).and_then([&](const std::string& content) {
    return parse_tuning_log(file, content);
  });
}

Result<void> use_cpu(const CostRequest& request, Machine& machine) {
  if (request.cpu.empty()) {
    return {};
  }
  const std::optional<CpuVendor> vendor = cpu_vendor_from(request.cpu);
  if (!vendor) {
    return failure(fmt::format("--cpu {}: choose intel, amd, arm or other", request.cpu));
  }
  machine.cpu = *vendor;
  return {};
}

/// Rows of all sizes; the error of the first that has none.
Result<CostResult> rows_of(CostResult result, CostQuery query, const std::vector<std::int64_t>& bytes) {
  std::string error;
  for (const std::int64_t size : bytes) {
    query.call.bytes = Bytes{size};
    const Result<std::vector<TimedCandidate>> times = candidate_times(query);
    if (!times) {
      error = times.error().message;
      break;
    }
    for (const TimedCandidate& time : *times) {
      if (result.explain || time.is_chosen) {
        result.rows.push_back({query.call, time.candidate, time.time, time.is_chosen});
      }
    }
  }
  return error.empty() ? Result<CostResult>(std::move(result)) : failure(error);
}

Cell seconds(double us) { return {us * 1e-6}; }

Table cost_table(const CostResult& result) {
  std::vector<ColumnUse> uses = {"message_bytes",
                                 "time_s",
                                 "low_s",
                                 "high_s",
                                 Column{.key = "bus_bandwidth_bytes_per_s", .drop_first = 4},
                                 "algorithm",
                                 "protocol",
                                 Column{.key = "provenance", .least = 12}};
  uses.insert(uses.end(), {Column{.key = "library_time_s", .drop_first = 3},
                           Column{.key = "library_latency_s", .drop_first = 1},
                           Column{.key = "library_bytes_per_s", .drop_first = 2}, "chosen"});
  Table table(columns(uses));
  for (const CostRow& row : result.rows) {
    const double bus = row.time.us > 0 ? static_cast<double>(row.call.bytes.value) / (row.time.us * 1e-6) *
                                             bus_factor(row.call.op, row.call.place.ranks)
                                       : 0;
    const bool has_table = row.time.library_us > 0;
    table.add({row.call.bytes, seconds(row.time.us), seconds(row.time.low_us), seconds(row.time.high_us),
               row.time.us > 0 ? Cell(BytesPerSecond{bus}) : Cell(), row.time.algorithm, row.time.protocol,
               provenance_text(row.time), has_table ? seconds(row.time.library_us) : Cell(),
               has_table ? seconds(row.candidate.latency_us) : Cell(),
               has_table ? Cell(BytesPerSecond{row.candidate.bandwidth * 1e9}) : Cell(), row.is_chosen});
  }
  if (!result.explain) {
    table.remove({"library_time_s", "library_latency_s", "library_bytes_per_s", "chosen"});
  }
  return table;
}

std::string library_text(const Library& library) {
  return library.version.empty() ? library.name : fmt::format("{} {}", library.name, library.version);
}

std::string environment_text(const CostResult& result) {
  return result.from_environment.empty()
             ? std::string()
             : fmt::format("from the environment: {}\n", fmt::join(result.from_environment, ", "));
}

std::string head_text(const CostResult& result) {
  return fmt::format("{} of {} on {} ranks, {} node{}, {} ({}), {}\n{}90 % intervals\n",
                     name_of(result.call.op), name_of(result.call.dtype), result.call.place.ranks,
                     result.call.place.nodes, result.call.place.nodes == 1 ? "" : "s", result.machine,
                     result.title, library_text(result.library), environment_text(result));
}

Result<CostResult> cost_on(const CostRequest& request, const Machine& machine, const Machine* lender) {
  return call_of(request, machine).and_then([&](const TimedCall& call) {
    return asked_library(request, call.op, machine, lender).and_then([&](const AskedLibrary& asked) {
      return tuned_pairs(request.tuning_log).and_then([&](const std::vector<TunedPair>& tuning) {
        return rows_of(
            {machine.name, machine.title, asked.library, asked.from_environment, call, request.explain, {}},
            {&machine, lender, asked.library, call, tuning}, request.bytes);
      });
    });
  });
}

}  // namespace

Result<CostResult> cost(const CostRequest& request) {
  if (request.bytes.empty()) {
    return failure("--bytes: give at least one message size");
  }
  return find_machine(request.machine).and_then([&](Machine machine) -> Result<CostResult> {
    if (const Result<void> used = use_cpu(request, machine); !used) {
      return tl::unexpected(used.error());
    }
    return lender_of(machine).and_then([&](const std::optional<Machine>& lender) {
      return cost_on(request, machine, lender ? &*lender : nullptr);
    });
  });
}

std::string rendered(const CostResult& result, Format format, const TextStyle& style) {
  const Table table = cost_table(result);
  return in_format(
      format, [&] { return head_text(result) + table.text_with_hidden(style); },
      [&] {
        return nlohmann::ordered_json({{"schema", "commlens.cost/1"},
                                       {"op", name_of(result.call.op)},
                                       {"dtype", name_of(result.call.dtype)},
                                       {"machine", result.machine},
                                       {"library", library_text(result.library)},
                                       {"from_environment", result.from_environment},
                                       {"rank_count", result.call.place.ranks},
                                       {"node_count", result.call.place.nodes},
                                       {"interval_share", .9},
                                       {"rows", rows_json(table)}});
      },
      [&] { return table.csv(); });
}

}  // namespace commlens
