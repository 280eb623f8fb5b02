#include "commlens/app/bench.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/app/bench_document.hpp"
#include "commlens/app/bench_messages.hpp"
#include "commlens/app/bench_plan.hpp"
#include "commlens/app/bench_reader.hpp"
#include "commlens/app/bench_run.hpp"
#include "commlens/app/free_memory.hpp"
#include "commlens/app/json_result.hpp"
#include "commlens/app/launch_bursts.hpp"
#include "commlens/app/launcher.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/base/file.hpp"
#include "commlens/base/file_lock.hpp"
#include "commlens/bench/bench_op.hpp"

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
    // `--messages CONFIG… OP` reads the op as one more configuration.
    const bool has_op = !request.ops.empty() || std::any_of(request.messages.begin(), request.messages.end(),
                                                            [](const std::string& word) {
                                                              return bench::bench_op_from(word).has_value();
                                                            });
    for (const auto& [flag, is_given] : {std::pair("OP", has_op),
                                         {"--sizes", !request.sizes.empty()},
                                         {"--groups", !request.groups.empty()},
                                         {"--mesh", !request.mesh.empty()},
                                         {"--in-place", request.in_place}}) {
      if (is_given) {
        return failure(fmt::format("{} and --messages both say what is timed; leave one out", flag));
      }
    }
  }
  if (!request.check.empty() && request.launches > 1 && request.launch_every < k_least_launch_distance) {
    return failure(fmt::format(
        "--launch-every: launches that begin less than {} ms apart share one state of the machine, "
        "and --check counts them as one; give 500ms",
        k_least_launch_distance.count()));
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
  if (launched_ranks() > 1) {
    return failure(
        fmt::format("the launcher has started {} processes, and each would time threads of its own; add "
                    "--transport mpi, or leave the launcher out",
                    launched_ranks()));
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
  return bench_messages(asked).and_then([&](const ModelMessages& messages) -> Result<BenchPlan> {
    if (ranks > 0 && ranks != messages.job_ranks) {
      return failure(fmt::format("the messages are of {} ranks, and this job has {}; start as many",
                                 messages.job_ranks, ranks));
    }
    if (request.transport == Transport::threads && messages.job_ranks > k_most_bench_ranks) {
      return failure(
          fmt::format("the messages are of {} ranks, more than the {} threads that a process has here",
                      messages.job_ranks, k_most_bench_ranks));
    }
    ranks = messages.job_ranks;
    return plan_of_messages(messages, request.events);
  });
}

/// Fails where the buffers would take more than the machine has free.
Result<void> check_buffers(const bench::MeasurePlan& plan) {
  return check_free_memory(bench::buffer_memory(plan), "time smaller messages, or fewer ranks");
}

/// Fails where a result could not be written, or would replace what it is compared with.
Result<void> check_bench_places(const BenchRequest& request) {
  std::vector<std::string> inputs = request.messages;
  inputs.push_back(request.check);
  inputs.push_back(request.transports);
  for (const auto& [flag, file] : {std::pair("--json", request.json), {"--append", request.append}}) {
    if (file.empty()) {
      continue;
    }
    const Result<void> usable = check_file_place(flag, file).and_then([&, name = flag, path = file] {
      return check_apart(name, path, inputs);
    });
    if (!usable) {
      return usable;
    }
  }
  return request.check_places ? request.check_places() : Result<void>();
}

/// The launches that --append adds to; none where the file is not there yet.
Result<BenchRun> earlier_launches(const BenchRequest& request, const BenchRun& now) {
  std::error_code unreadable;
  const bool is_new =
      request.append.empty() || !std::filesystem::exists(request.append, unreadable) ||
      std::filesystem::file_size(request.append, unreadable) == 0;  // another job is to fill it
  if (is_new) {
    return now;
  }
  return read_bench(request.append).and_then([&](BenchRun earlier) {
    return check_can_append(request.append, earlier, now).map([&] {
      std::erase_if(earlier.launches, [](const BenchLaunch& launch) { return launch.is_partial; });
      BenchRun run = now;
      run.launches = std::move(earlier.launches);
      return run;
    });
  });
}

BenchRun planned_run(const BenchRequest& request, const BenchPlan& plan, std::int64_t ranks) {
  BenchRun run;
  run.transport = request.transport == Transport::mpi ? "mpi" : "threads";
  run.ranks = ranks;
  run.ranks_on_machine = plan.measured.ranks_on_machine;
  run.is_cold = plan.measured.is_cold;
  run.table = std::filesystem::path(request.transports).filename().string();
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
  return read_bench(request.check).and_then([&](BenchRun before) {
    return check_can_compare(request.check, before, run, request.launches).map([&] {
      return std::optional<BenchRun>(std::move(before));
    });
  });
}

/// The job, with what its files hold: of one rank, which alone reads and writes them.
Result<BenchJob> with_files(const BenchRequest& request, BenchJob job) {
  return check_bench_places(request)
      .and_then([&] { return earlier_launches(request, job.run); })
      .and_then([&](BenchRun run) {
        job.run = std::move(run);
        return earlier_result(request, job.run);
      })
      .map([&](std::optional<BenchRun> before) {
        job.before = std::move(before);
        return std::move(job);
      });
}

/// What this rank has to measure; `is_first`: it is the one that reads and writes files of results.
Result<BenchJob> prepared_bench(const BenchRequest& request, bool is_first) {
  return bench_ranks(request).and_then([&](std::int64_t ranks) {
    return bench_plan(request, ranks).and_then([&](BenchPlan plan) {
      plan.measured.is_cold = request.is_cold.value_or(!request.messages.empty());
      plan.measured.verifies = request.verifies;
      plan.measured.cache = bench::last_level_cache();
      plan.measured.ranks_on_machine = request.transport == Transport::mpi ? local_ranks(ranks) : ranks;
      const Result<void> can_be = check_printed_types(request.printed_as, plan.rows).and_then([&] {
        return check_buffers(plan.measured);
      });
      return can_be.and_then([&] {
        BenchJob job;
        job.run = planned_run(request, plan, ranks);
        job.plan = std::move(plan);
        return is_first ? with_files(request, std::move(job)) : Result<BenchJob>(std::move(job));
      });
    });
  });
}

/// The file with the comparison in it.
void write_checked(const BenchRequest& request, BenchResult& result) {
  const std::string& file = request.append.empty() ? request.json : request.append;
  if (file.empty() || !result.unwritten.empty()) {
    return;
  }
  try {
    const FileLock lock(file);
    // Other jobs may have added launches since.
    const Result<std::string> now = request.append.empty() ? failure("") : read_bench_text(file);
    nlohmann::ordered_json json = bench_json(result);
    if (now) {
      nlohmann::ordered_json written = nlohmann::ordered_json::parse(*now, nullptr, false);
      if (written.is_object()) {
        written["check"] = std::move(json["check"]);
        json = std::move(written);
      }
    }
    write_file_atomically(file, json_result(json));
  } catch (const SystemError& error) {
    result.unwritten = error.what();
  }
}

/// Adds the comparison with an earlier result.
Result<BenchResult> bench_checked(BenchResult result, const std::optional<BenchRun>& before,
                                  const BenchRequest& request) {
  if (!before || !result.reports || result.run.was_stopped) {
    return Result<BenchResult>(std::move(result));
  }
  return check_bench(*before, result.run).map([&](const BenchComparison& checks) {
    result.checked = checks;
    result.checked_with = request.check;
    write_checked(request, result);
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

Result<BenchResult> bench_calls(const BenchRequest& request) {
  const bool is_mpi = request.transport == Transport::mpi;
  const bool is_first = !is_mpi || rank_of_process() == 0;
  if (const Result<void> usable = check_bench_request(request); !usable) {
    BenchResult refused;  // all processes find this; the first one says it
    refused.reports = false;
    refused.was_refused = true;
    return is_first ? Result<BenchResult>(tl::unexpected(usable.error())) : Result<BenchResult>(refused);
  }
  const Result<BenchJob> job = prepared_bench(request, is_first);
  if (!job && !is_mpi) {
    return tl::unexpected(job.error());
  }
  if (const std::string warning = shared_cores_warning(); job && !warning.empty()) {
    request.events.warn(warning);
  }
  return (is_mpi ? bench_over_mpi(request, job) : bench_on_threads(request, *job))
      .and_then([&](const BenchResult& result) {
        return result.was_refused ? Result<BenchResult>(result) : bench_checked(result, job->before, request);
      });
}

}  // namespace commlens
