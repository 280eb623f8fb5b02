#include "commlens/app/bench.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "commlens/app/bench_document.hpp"
#include "commlens/app/bench_messages.hpp"
#include "commlens/app/bench_plan.hpp"
#include "commlens/app/bench_reader.hpp"
#include "commlens/app/bench_run.hpp"
#include "commlens/app/json_result.hpp"
#include "commlens/app/launcher.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/base/file.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_most_bench_ranks = 1024;  // threads of one process

Result<void> check_bench_request(const BenchRequest& request) {
  if (request.transport == Transport::nccl) {
    return failure(
        "--transport nccl: bench times calls on host memory; nccl-tests times NCCL's, and commlens calibrate "
        "reads them");
  }
  const bool is_mpi = request.transport == Transport::mpi;
  if (is_mpi && request.launches != 1) {
    return failure(
        "--launches: mpirun starts the ranks, so a job over MPI is one launch; run it several times with "
        "--append FILE");
  }
  if (!request.append.empty() && !request.json.empty()) {
    return failure("--append and --json both name the file of the result; give one of them");
  }
  if (!request.messages.empty()) {
    for (const auto& [flag, is_given] : {std::pair("OP", !request.ops.empty()),
                                         {"--sizes", !request.sizes.empty()},
                                         {"--groups", !request.groups.empty()},
                                         {"--mesh", !request.mesh.empty()},
                                         {"--in-place", request.in_place}}) {
      if (is_given) {
        return failure(fmt::format("{} and --messages both say what is timed; leave one out", flag));
      }
    }
  }
  for (const auto& [flag, file] : {std::pair("--json", request.json), {"--append", request.append}}) {
    if (const Result<void> usable = file.empty() ? Result<void>() : check_file_place(flag, file); !usable) {
      return usable;
    }
  }
  return request.time.count() > 0 && request.launches >= 1 ? Result<void>()
                                                           : failure("--time and --launches must be above 0");
}

/// Ranks of the job: of the launcher, or threads.
Result<std::int64_t> bench_ranks(const BenchRequest& request) {
  if (request.transport == Transport::mpi) {
    const std::int64_t launched = launched_ranks();
    if (request.ranks != 0 && request.ranks != launched) {
      return failure(fmt::format("--ranks {}: the launcher started {}", request.ranks, launched));
    }
    return launched;
  }
  if (request.ranks > k_most_bench_ranks) {
    return failure(
        fmt::format("--ranks {}: more than {} threads of one process", request.ranks, k_most_bench_ranks));
  }
  return request.ranks;
}

Result<BenchPlan> bench_plan(const BenchRequest& request, std::int64_t& ranks) {
  if (request.messages.empty()) {
    ranks = ranks == 0 ? 2 : ranks;
    return plan_of_sizes(request, ranks);
  }
  BenchRequest asked = request;
  if (ranks > 0) {
    asked.overrides.ranks = ranks;
  }
  return bench_messages(asked).and_then([&](const BenchMessages& messages) -> Result<BenchPlan> {
    if (ranks > 0 && ranks != messages.ranks) {
      return failure(fmt::format("the messages are of {} ranks, and this job has {}; start as many",
                                 messages.ranks, ranks));
    }
    if (request.transport == Transport::threads && messages.ranks > k_most_bench_ranks) {
      return failure(
          fmt::format("the messages are of {} ranks, more than the {} threads that a process has here",
                      messages.ranks, k_most_bench_ranks));
    }
    ranks = messages.ranks;
    return plan_of_messages(messages, request.events);
  });
}

/// Fails where the buffers would take more than the machine has free.
Result<void> check_buffers(const bench::MeasurePlan& plan) {
  constexpr std::int64_t k_most = 65536;
  const Bytes needed = bench::buffer_memory(plan);
  const Result<std::string> memory = read_text_file("/proc/meminfo", k_most);
  constexpr std::string_view key = "MemAvailable:";
  const std::size_t found = memory ? memory->find(key) : std::string::npos;
  if (found == std::string::npos) {
    return {};
  }
  const std::int64_t free = std::strtoll(memory->c_str() + found + key.size(), nullptr, 10) * 1024;
  return needed.value <= free
             ? Result<void>()
             : failure(fmt::format("the buffers of the ranks of this machine take {}, and it has {} "
                                   "free; time smaller messages, or fewer ranks",
                                   to_text(needed), to_text(Bytes{free})));
}

/// The launches that --append adds to; none where the file is not there yet.
Result<BenchRun> earlier_launches(const BenchRequest& request, const BenchRun& now) {
  std::error_code unreadable;
  if (request.append.empty() || !std::filesystem::exists(request.append, unreadable)) {
    return now;
  }
  return read_bench(request.append).and_then([&](BenchRun earlier) -> Result<BenchRun> {
    if (earlier.transport != now.transport || earlier.ranks != now.ranks || earlier.is_cold != now.is_cold) {
      return failure(
          fmt::format("--append {}: holds {} ranks over {} with {} buffers, and this job has {} over {} "
                      "with {} ones; choose another file",
                      request.append, earlier.ranks, earlier.transport, earlier.is_cold ? "cold" : "hot",
                      now.ranks, now.transport, now.is_cold ? "cold" : "hot"));
    }
    std::erase_if(earlier.launches, [](const BenchLaunch& launch) { return launch.is_partial; });
    BenchRun run = now;
    run.launches = std::move(earlier.launches);
    return Result<BenchRun>(std::move(run));
  });
}

BenchRun planned_run(const BenchRequest& request, const BenchPlan& plan, std::int64_t ranks) {
  BenchRun run;
  run.transport = request.transport == Transport::mpi ? "mpi" : "threads";
  run.ranks = ranks;
  run.ranks_on_machine = plan.measured.ranks_on_machine;
  run.is_cold = plan.measured.is_cold;
  run.messages = plan.messages;
  run.classes = plan.classes;
  run.planned = plan.rows;
  return run;
}

/// Fails where --check could not say anything, before anything is timed.
Result<std::optional<BenchRun>> earlier_result(const BenchRequest& request, const BenchRun& run) {
  if (request.check.empty()) {
    return std::optional<BenchRun>();
  }
  return read_bench(request.check).and_then([&](BenchRun before) -> Result<std::optional<BenchRun>> {
    const auto launches = static_cast<std::int64_t>(run.launches.size()) + request.launches;
    const Result<void> enough =
        check_launches(request.check, static_cast<std::int64_t>(before.launches.size())).and_then([&] {
          return check_launches("this result", launches);
        });
    return enough ? Result<std::optional<BenchRun>>(std::move(before)) : tl::unexpected(enough.error());
  });
}

/// Adds the comparison with an earlier result.
Result<BenchResult> bench_checked(BenchResult result, const std::optional<BenchRun>& before,
                                  const BenchRequest& request) {
  if (!before || !result.reports || result.run.was_stopped) {
    return Result<BenchResult>(std::move(result));
  }
  return check_bench(*before, result.run).map([&](const std::vector<BenchCheck>& checks) {
    result.checked = checks;
    result.checked_with = request.check;
    for (const std::string& file : {request.json, request.append}) {
      if (!file.empty()) {
        write_file_atomically(file, json_result(bench_json(result)));
      }
    }
    return result;
  });
}

}  // namespace

std::int64_t BenchResult::wrong_elements() const {
  std::int64_t wrong = 0;
  for (const BenchRow& row : combined_rows(run)) {
    wrong += row.wrong_elements.value_or(0);
  }
  return wrong;
}

bool BenchResult::is_slower() const {
  return std::any_of(checked.begin(), checked.end(), [](const BenchCheck& check) { return check.is_slower; });
}

Result<BenchResult> bench_calls(const BenchRequest& request) {
  if (const Result<void> usable = check_bench_request(request); !usable) {
    return tl::unexpected(usable.error());
  }
  const Result<std::int64_t> asked_ranks = bench_ranks(request);
  if (!asked_ranks) {
    return tl::unexpected(asked_ranks.error());
  }
  std::int64_t ranks = *asked_ranks;
  return bench_plan(request, ranks).and_then([&](BenchPlan plan) {
    plan.measured.is_cold = request.is_cold.value_or(!request.messages.empty());
    plan.measured.verifies = request.verifies;
    plan.measured.cache = bench::last_level_cache();
    const bool is_mpi = request.transport == Transport::mpi;
    plan.measured.ranks_on_machine = is_mpi ? local_ranks(ranks) : ranks;
    if (const Result<void> fits = check_buffers(plan.measured); !fits) {
      return Result<BenchResult>(tl::unexpected(fits.error()));
    }
    const BenchRun now = planned_run(request, plan, ranks);
    return earlier_launches(request, now).and_then([&](const BenchRun& run) {
      return earlier_result(request, run).and_then([&](const std::optional<BenchRun>& before) {
        if (const std::string warning = shared_cores_warning(); !warning.empty()) {
          request.events.warn(warning);
        }
        return (is_mpi ? bench_over_mpi(request, plan, run) : bench_on_threads(request, plan, run))
            .and_then([&](const BenchResult& result) { return bench_checked(result, before, request); });
      });
    });
  });
}

}  // namespace commlens
