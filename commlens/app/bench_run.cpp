#include "commlens/app/bench_run.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "commlens/app/bench_document.hpp"
#include "commlens/app/bench_reader.hpp"
#include "commlens/app/job_transports.hpp"
#include "commlens/app/json_result.hpp"
#include "commlens/app/launch_pace.hpp"
#include "commlens/app/launcher.hpp"
#include "commlens/app/train_transport.hpp"
#include "commlens/base/file.hpp"
#include "commlens/base/file_lock.hpp"
#include "commlens/base/text.hpp"
#include "commlens/bench/clock_sync.hpp"
#include "commlens/transport/mpi_world.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

std::uint64_t any_seed() {
  constexpr std::uint64_t k_seeds = 1'000'000;  // short enough to be typed
  return std::random_device{}() % k_seeds;
}

/// One launch on one rank.
bench::Measured measured_on(Communicator& world, const BenchRequest& request, const BenchPlan& plan,
                            std::uint64_t seed, bool is_oversubscribed, BenchProgress* progress) {
  bench::RoundOptions rounds;
  rounds.seed = seed;
  rounds.time = request.time;
  rounds.stop_requested = request.stop_requested;
  rounds.clock = request.clock;
  std::function<void(const bench::Measured&)> has_more;
  std::function<void(const bench::SetUp&)> sets_up;
  if (progress != nullptr) {
    sets_up = [&](const bench::SetUp& set_up) { progress->set_up(set_up); };
    has_more = [&](const bench::Measured& so_far) {
      progress->update(launch_of(plan, so_far, progress->begun(), is_oversubscribed), so_far.timed_rows);
    };
  }
  return bench::measure(world, plan.measured, rounds, has_more, sets_up);
}

std::unique_ptr<Communicator> decorated(const BenchRequest& request, std::unique_ptr<Communicator> world) {
  return request.decorate ? request.decorate(std::move(world)) : std::move(world);
}

std::int64_t online_cores() { return sysconf(_SC_NPROCESSORS_ONLN); }

/// The first rank's seed.
std::uint64_t shared_seed(Communicator& world, std::uint64_t seed) {
  auto shared = static_cast<std::int64_t>(seed);
  world.run({.kind = CommKind::broadcast,
             .dtype = DType::int64,
             .input_buffer = &shared,
             .output_buffer = &shared,
             .input = {1},
             .output = {1},
             .peer = {0}});
  return static_cast<std::uint64_t>(shared);
}

/// Whether every machine has as many ranks as the launcher says that this one has. A launcher that says
/// nothing counts as one machine, which has one clock.
bool has_even_machines(Communicator& world) {
  const std::int64_t own = local_ranks(world.size());
  std::vector<std::int64_t> most_and_fewest = {own, -own};
  world.run({.kind = CommKind::all_reduce,
             .dtype = DType::int64,
             .reduction = ReduceOp::max,
             .input_buffer = most_and_fewest.data(),
             .output_buffer = most_and_fewest.data(),
             .input = {2},
             .output = {2}});
  const bool is_one_machine = bench::share_a_clock(world);
  return most_and_fewest[0] == -most_and_fewest[1] && (most_and_fewest[0] < world.size() || is_one_machine);
}

BenchResult launched_over_mpi(Communicator& world, const BenchRequest& request, const BenchJob& job) {
  BenchResult result;
  result.reports = world.rank().value == 0;
  const std::uint64_t seed = shared_seed(world, request.seed.value_or(any_seed()));
  const bool is_oversubscribed = local_ranks(world.size()) > online_cores();
  BenchRun run = job.run;
  run.has_even_machines = has_even_machines(world);
  if (!result.reports) {
    result.run.was_stopped =
        measured_on(world, request, job.plan, seed, is_oversubscribed, nullptr).was_stopped;
    return result;
  }
  BenchProgress progress(request, std::move(run), bench::row_count(job.plan.measured));
  progress.begin_launch(seed, LaunchClock(request.launch_clock).now());
  const bench::Measured measured = measured_on(world, request, job.plan, seed, is_oversubscribed, &progress);
  progress.end_launch(launch_of(job.plan, measured, progress.begun(), is_oversubscribed),
                      measured.was_stopped);
  result.run = progress.run();
  result.unwritten = progress.unwritten();
  return result;
}

}  // namespace

BenchProgress::BenchProgress(const BenchRequest& request, BenchRun run, std::int64_t total_rows)
    : request_(request), run_(std::move(run)), total_rows_(total_rows) {}

BenchProgress::~BenchProgress() = default;

void BenchProgress::begin_task(std::string name, std::int64_t total) {
  if (!task_ || task_name_ != name) {
    task_.reset();  // it ends before the next one begins
    reported_ = 0;
    task_name_ = std::move(name);
    task_ = std::make_unique<Task>(request_.events, task_name_, total);
  }
}

void BenchProgress::begin_launch(std::uint64_t seed, std::int64_t unix_ns) {
  begun_ = BenchLaunch{seed, unix_ns, 0, true, {}};
  run_.launches.push_back(begun_);
  ++own_;
  const bool is_alone = request_.launches == 1;
  begin_task(is_alone ? "setting up" : "timing", is_alone ? 0 : total_rows_ * request_.launches);
}

void BenchProgress::set_up(const bench::SetUp& set_up) {
  if (request_.launches > 1) {
    return;  // the task is of all launches
  }
  begin_task(set_up.step == bench::SetUp::Step::buffers       ? "making buffers"
             : set_up.step == bench::SetUp::Step::first_calls ? "first calls"
                                                              : "verifying",
             set_up.total);
  task_->add(set_up.done - std::exchange(reported_, set_up.done));
}

void BenchProgress::update(BenchLaunch launch, std::int64_t timed_rows) {
  run_.launches.back() = std::move(launch);
  begin_task("timing", total_rows_ * request_.launches);
  const std::int64_t done = (own_ - 1) * total_rows_ + timed_rows;
  task_->add(done - std::exchange(reported_, done));
  write(false);
}

void BenchProgress::end_launch(BenchLaunch launch, bool was_stopped) {
  run_.launches.back() = std::move(launch);
  run_.was_stopped = was_stopped;
  if (run_.launches.back().rows.empty() && was_stopped) {
    run_.launches.pop_back();
    --own_;
  }
  write(true);
}

void BenchProgress::take_launches_of_others() {
  std::error_code unreadable;
  if (std::filesystem::file_size(request_.append, unreadable) == 0 || unreadable) {
    return;  // of this job, which has made it; or a pipe
  }
  const Result<void> taken = read_bench(request_.append).and_then([&](BenchRun others) {
    return check_can_append(request_.append, others, run_).map([&] {
      const auto own = run_.launches.end() - own_;
      std::erase_if(others.launches, [&](const BenchLaunch& launch) {
        return launch.is_partial || std::any_of(own, run_.launches.end(), [&](const BenchLaunch& mine) {
                 return mine.seed == launch.seed && mine.began_ns == launch.began_ns;
               });
      });
      others.launches.insert(others.launches.end(), own, run_.launches.end());
      run_.launches = std::move(others.launches);
    });
  });
  if (!taken) {
    throw SystemError(taken.error().message);
  }
}

void BenchProgress::write(bool is_due) {
  constexpr std::int64_t k_between_files_ns = 500'000'000;
  const std::int64_t now = bench::monotonic_ns();
  if (!is_due && now - written_at_ns_ < k_between_files_ns) {
    return;
  }
  written_at_ns_ = now;
  const std::string& file = request_.append.empty() ? request_.json : request_.append;
  if (file.empty()) {
    return;
  }
  try {
    std::optional<FileLock> lock;
    if (!request_.append.empty()) {
      lock.emplace(file);  // other jobs may add to it
      take_launches_of_others();
    }
    BenchResult so_far;
    so_far.run = run_;
    write_file_atomically(file, json_result(bench_json(so_far)));
    unwritten_.clear();
  } catch (const SystemError& error) {
    unwritten_ = error.what();  // what is measured is printed all the same
  }
}

Result<BenchResult> bench_on_threads(const BenchRequest& request, const BenchJob& job) {
  const Result<std::optional<TransportTable>> table = table_of_threads(request.transports, job.run.ranks);
  if (!table) {
    return tl::unexpected(table.error());
  }
  const std::uint64_t seed = request.seed.value_or(any_seed());
  const std::int64_t ranks = job.run.ranks;
  const bool is_oversubscribed = ranks > online_cores();
  BenchProgress progress(request, job.run, bench::row_count(job.plan.measured));
  const LaunchClock clock(request.launch_clock);
  std::int64_t due = clock.now();
  for (std::int64_t launch = 0; launch < request.launches && !progress.run().was_stopped; ++launch) {
    const std::uint64_t own_seed = seed + static_cast<std::uint64_t>(launch);
    const std::int64_t began = waited_until(clock, due, request.stop_requested);
    due = began + request.launch_every.count();
    progress.begin_launch(own_seed, began);
    run_thread_ranks(ranks, [&](std::unique_ptr<Communicator> bare) {
      const bool is_first = bare->rank().value == 0;
      const std::unique_ptr<Communicator> world = decorated(
          request, *over_table(std::move(bare), "threads", *table, launch == 0 ? request.events : Events()));
      const bench::Measured measured =
          measured_on(*world, request, job.plan, own_seed, is_oversubscribed, is_first ? &progress : nullptr);
      if (is_first) {
        progress.end_launch(launch_of(job.plan, measured, progress.begun(), is_oversubscribed),
                            measured.was_stopped);
      }
    });
  }
  BenchResult result;
  result.run = progress.run();
  result.unwritten = progress.unwritten();
  return Result<BenchResult>(std::move(result));
}

Result<BenchResult> bench_over_mpi(const BenchRequest& request, const Result<BenchJob>& job) {
  Result<std::unique_ptr<Communicator>> own =
      request.transports.empty()
          ? open_mpi_world(request.mpi)
          : open_mpi_job({.mpi = request.mpi, .transports = request.transports, .events = request.events});
  if (!own) {
    return tl::unexpected(own.error());
  }
  const std::unique_ptr<Communicator> world = decorated(request, std::move(*own));
  try {
    return all_ready(*world, job ? Result<void>() : tl::unexpected(job.error())).map([&](bool all_are) {
      if (all_are) {
        return launched_over_mpi(*world, request, *job);
      }
      BenchResult refused;
      refused.reports = false;
      refused.was_refused = true;
      return refused;
    });
  } catch (const std::exception& error) {
    world->abort(error.what());  // the others would wait for this rank forever
    throw;
  }
}

std::string shared_cores_warning() {
  constexpr std::int64_t k_most = 4096;
  constexpr double k_idle = 0.5;
  const Result<std::string> grouped = read_text_file("/proc/sys/kernel/sched_autogroup_enabled", k_most);
  const Result<std::string> load = read_text_file("/proc/loadavg", k_most);
  if (!grouped || !load || !grouped->starts_with("1")) {
    return {};
  }
  const Result<double> last_minute = parse_number(load->substr(0, load->find(' ')));
  return last_minute && *last_minute > k_idle
             ? fmt::format(
                   "others use this machine (load {:.1f}) and sched_autogroup_enabled is 1: their sessions "
                   "get as much of a core as this job, whatever its nice value",
                   *last_minute)
             : std::string();
}

}  // namespace commlens
