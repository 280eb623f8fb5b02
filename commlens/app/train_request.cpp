#include "commlens/app/train_request.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "commlens/app/launcher.hpp"

namespace commlens {
namespace {

bool has_launcher() {
  return number_from_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}).has_value();
}

Result<void> check_transport(const TrainRequest& request) {
  const Transport transport = request.transport;
  if (!request.mpi.empty() && transport == Transport::threads) {
    return failure("--mpi: the ranks are threads of this process; add --transport mpi");
  }
  const std::int64_t launched = number_from_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}).value_or(1);
  if (transport == Transport::threads && launched > 1) {
    return failure(
        fmt::format("mpirun has started {} processes, and each would train alone; add --transport mpi, or "
                    "leave mpirun out and give --ranks {}",
                    launched, launched));
  }
  if (request.device == "cpu" && transport == Transport::nccl) {
    return failure("--device cpu: --transport nccl moves GPU memory; use --transport threads or mpi");
  }
  if (request.device == "cuda" && transport == Transport::mpi) {
    return failure("--device cuda: --transport mpi moves host memory; use --transport nccl");
  }
  return {};
}

/// Of each of `here` ranks on this machine: its share of the cores, but no more than its largest product
/// keeps busy. Waking a thread for less than a few million operations costs as much as it saves.
std::int64_t usual_threads(const Job& job, std::int64_t here) {
  constexpr double least_operations = 2e6;
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  const std::int64_t share = std::max<std::int64_t>(1, cores / std::max<std::int64_t>(1, here));
  const ModelConfig& model = job.model;
  const double operations = 2.0 * static_cast<double>(job.train.micro_batch * model.sequence) *
                            static_cast<double>(model.hidden) * static_cast<double>(model.ffn_hidden) /
                            static_cast<double>(job.layout.tp);
  return operations / least_operations >= static_cast<double>(share)
             ? share
             : std::max<std::int64_t>(1, static_cast<std::int64_t>(operations / least_operations));
}

}  // namespace

bool TrainRequest::uses_mpi() const {
  return transport == Transport::mpi || (transport == Transport::nccl && (!mpi.empty() || has_launcher()));
}

Result<void> check_request(const TrainRequest& request) {
  const RecipeChoice& recipe = request.recipe;
  if (recipe.learning_rate && recipe.min_learning_rate.value_or(0) > *recipe.learning_rate) {
    return failure(
        fmt::format("--min-lr {}: it is above --lr {}", *recipe.min_learning_rate, *recipe.learning_rate));
  }
  if (request.save_every > 0 && request.save.empty()) {
    return failure("--save-every: say where to with --save DIR");
  }
  return check_transport(request);
}

Result<engine::TrainOptions> train_options(const TrainRequest& request, const Job& job) {
  engine::TrainOptions options;
  options.iterations = request.iterations;
  if (const Result<void> ok = apply_recipe(request.recipe, job.recipe, options); !ok) {
    return tl::unexpected(ok.error());
  }
  options.prefetch = request.prefetch;
  options.overlap = request.overlap;
  options.device = !request.device.empty()                ? request.device
                   : request.transport == Transport::nccl ? "cuda"
                                                          : "cpu";
  const std::int64_t here = request.uses_mpi() ? local_ranks(job.layout.ranks) : job.layout.ranks;
  options.threads = request.threads.value_or(usual_threads(job, here));
  options.trace = request.trace;
  options.ring_records = request.ring_records;
  options.save_every = request.save_every;
  if (!request.save.empty()) {
    options.save = request.save;
  }
  if (!request.resume.empty()) {
    options.resume = request.resume;
  }
  return options;
}

}  // namespace commlens
