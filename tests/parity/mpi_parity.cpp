// One rank of an MPI job that trains a few layouts and compares them with one rank and with their prediction.
// Exit 0: all agree; 1: not; 2: no MPI.
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "commlens/base/result.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/transport/mpi_world.hpp"
#include "parity/training_run.hpp"

namespace {

using namespace commlens;          // NOLINT(google-build-using-namespace): a program, not a header
using namespace commlens::engine;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t k_steps = 10;
constexpr double k_tolerance = 1e-5;

struct Layout {
  const char* name;
  std::int64_t dp;
  std::int64_t tp;
  std::int64_t pp;
  int zero;
  std::int64_t micro_batches;
  bool sequence_parallel;
};

// Four ranks, eight sequences a step.
constexpr std::array k_layouts{
    Layout{"ddp", 4, 1, 1, 0, 1, false},       Layout{"zero2", 4, 1, 1, 2, 2, false},
    Layout{"zero3", 4, 1, 1, 3, 1, false},     Layout{"zero3_tp2", 2, 2, 1, 3, 1, false},
    Layout{"tp2_sp_pp2", 1, 2, 2, 0, 4, true}, Layout{"zero1_pp2", 2, 1, 2, 1, 2, false},
};

Job job_of(const Layout& layout) {
  Job job = tiny_job_of(layout);
  job.layout.sequence_parallel = layout.sequence_parallel;
  job.train.gradient_clipping = 1.0;
  return job;
}

TrainOptions options() { return {.iterations = k_steps, .schedule = {.peak = 1e-3, .minimum = 1e-4}}; }

/// Differences as rank 0 sees them.
std::vector<std::string> differences(const Layout& layout, const std::vector<double>& losses,
                                     const std::vector<double>& alone, const std::filesystem::path& trace) {
  std::vector<std::string> lines = differences_from_prediction(job_of(layout), trace, k_steps);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    if (losses.size() != alone.size() || std::abs(losses[i] - alone[i]) > k_tolerance * alone[i]) {
      lines.push_back(fmt::format("iteration {}: loss {} on four ranks, {} on one", i,
                                  i < losses.size() ? losses[i] : NAN, alone[i]));
    }
  }
  return lines;
}

bool agrees(const Layout& layout, const std::vector<double>& alone, Communicator& world) {
  const bool is_first = world.rank() == GroupRank{0};
  // The launcher's process is the parent of all ranks of this machine.
  const std::filesystem::path trace = std::filesystem::temp_directory_path() /
                                      fmt::format("commlens-mpi-parity-{}-{}", getppid(), layout.name);
  if (is_first) {
    create_recording(trace, {.producer = "test", .ranks = world.size(), .compute = true});
  }
  world.barrier();
  std::vector<double> losses;
  train_job(job_of(layout), options(), trace, world.split(0, 0),
            [&](const IterationReport& report) { losses.push_back(report.loss); });
  world.barrier();
  bool good = true;
  if (is_first) {
    for (const std::string& line : differences(layout, losses, alone, trace)) {
      fmt::print("{}: {}\n", layout.name, line);
      good = false;
    }
    std::filesystem::remove_all(trace);
  }
  world.barrier();
  return good;
}

}  // namespace

int main() {
  auto world = open_mpi_world("");
  if (!world) {
    fmt::print(stderr, "{}\n", world.error().message);
    return 2;
  }
  Job one_rank = tiny_job();
  one_rank.layout.dp = 1;
  one_rank.train.gradient_clipping = 1.0;
  std::vector<double> alone;
  if ((*world)->rank() == GroupRank{0}) {
    alone = train_on_threads("alone", one_rank, options()).losses;
  }
  int status = 0;
  for (const Layout& layout : k_layouts) {
    status |= agrees(layout, alone, **world) ? 0 : 1;
  }
  return status;
}
