#include "commlens/app/bench_run.hpp"

#include <random>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "commlens/app/bench_document.hpp"
#include "commlens/app/json_result.hpp"
#include "commlens/app/launcher.hpp"
#include "commlens/app/train_transport.hpp"
#include "commlens/base/file.hpp"
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
  if (progress != nullptr) {
    has_more = [&](const bench::Measured& so_far) {
      progress->update(launch_of(plan, so_far, seed, is_oversubscribed), so_far.timed_rows);
    };
  }
  return bench::measure(world, plan.measured, rounds, has_more);
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
  progress.begin_launch();
  const bench::Measured measured = measured_on(world, request, job.plan, seed, is_oversubscribed, &progress);
  progress.end_launch(launch_of(job.plan, measured, seed, is_oversubscribed), measured.was_stopped);
  result.run = progress.run();
  return result;
}

}  // namespace

BenchProgress::BenchProgress(const BenchRequest& request, BenchRun run, std::int64_t total_rows)
    : request_(request),
      run_(std::move(run)),
      task_(std::make_unique<Task>(request.events, "timing", total_rows * request.launches)) {}

BenchProgress::~BenchProgress() = default;

void BenchProgress::begin_launch() {
  run_.launches.emplace_back().is_partial = true;
  reported_ = 0;
}

void BenchProgress::update(BenchLaunch launch, std::int64_t timed_rows) {
  run_.launches.back() = std::move(launch);
  task_->add(timed_rows - std::exchange(reported_, timed_rows));
  write(false);
}

void BenchProgress::end_launch(BenchLaunch launch, bool was_stopped) {
  run_.launches.back() = std::move(launch);
  run_.was_stopped = was_stopped;
  if (run_.launches.back().rows.empty() && was_stopped) {
    run_.launches.pop_back();
  }
  write(true);
}

void BenchProgress::write(bool is_due) {
  constexpr std::int64_t k_between_files_ns = 500'000'000;
  const std::int64_t now = bench::monotonic_ns();
  if (!is_due && now - written_at_ns_ < k_between_files_ns) {
    return;
  }
  written_at_ns_ = now;
  for (const std::string& file : {request_.json, request_.append}) {
    if (!file.empty()) {
      write_file_atomically(file, json_result(bench_json({.run = run_, .checked = {}, .checked_with = {}})));
    }
  }
}

Result<BenchResult> bench_on_threads(const BenchRequest& request, const BenchJob& job) {
  const std::uint64_t seed = request.seed.value_or(any_seed());
  const std::int64_t ranks = job.run.ranks;
  const bool is_oversubscribed = ranks > online_cores();
  BenchProgress progress(request, job.run, bench::row_count(job.plan.measured));
  for (std::int64_t launch = 0; launch < request.launches && !progress.run().was_stopped; ++launch) {
    const std::uint64_t own_seed = seed + static_cast<std::uint64_t>(launch);
    progress.begin_launch();
    run_thread_ranks(ranks, [&](std::unique_ptr<Communicator> bare) {
      const bool is_first = bare->rank().value == 0;
      const std::unique_ptr<Communicator> world = decorated(request, std::move(bare));
      const bench::Measured measured =
          measured_on(*world, request, job.plan, own_seed, is_oversubscribed, is_first ? &progress : nullptr);
      if (is_first) {
        progress.end_launch(launch_of(job.plan, measured, own_seed, is_oversubscribed), measured.was_stopped);
      }
    });
  }
  BenchResult result;
  result.run = progress.run();
  return Result<BenchResult>(std::move(result));
}

Result<BenchResult> bench_over_mpi(const BenchRequest& request, const Result<BenchJob>& job) {
  Result<std::unique_ptr<Communicator>> own = open_mpi_world(request.mpi);
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
