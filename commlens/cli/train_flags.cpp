#include "commlens/cli/train_flags.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/cli/number_check.hpp"
#include "commlens/frameworks/read_config.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_most_iterations = std::numeric_limits<std::int32_t>::max();

std::optional<std::int64_t> number_from_environment(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const text = std::getenv(name);
    const Result<std::int64_t> value = text == nullptr ? failure("") : parse_integer(text);
    if (value && *value >= 0) {
      return *value;
    }
  }
  return std::nullopt;
}

bool has_launcher() {
  return number_from_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}).has_value();
}

void declare_data(CLI::App& verb, TrainFlags& flags) {
  const char* const group = "Data (docs/data.md)";
  verb.add_option("--data", flags.data.file, "A text of any kind, or synthetic (the default)")
      ->type_name("FILE")
      ->group(group);
  verb.add_option("--vocab-file", flags.vocab_file, "GPT-2's vocab.json; without it, tokens are bytes")
      ->type_name("FILE")
      ->group(group);
  verb.add_option("--merge-file", flags.merge_file, "GPT-2's merges.txt")->type_name("FILE")->group(group);
}

void declare_execution(CLI::App& verb, TrainFlags& flags) {
  const char* const group = "Execution";
  verb.add_option("--transport", flags.transport,
                  "threads: ranks in this process; mpi: under mpirun; nccl: GPUs")
      ->check(CLI::IsMember({"threads", "mpi", "nccl"}))
      ->capture_default_str()
      ->group(group);
  verb.add_option("--mpi", flags.mpi, "Which MPI; default: the launcher's")
      ->check(CLI::IsMember({"openmpi", "mpich"}))
      ->group(group);
  verb.add_option("--device", flags.device, "cpu or cuda; default: cpu, with nccl cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->group(group);
  verb.add_option("--threads", flags.threads,
                  "Threads of each rank; default: its share of the cores, 1 in tiny models")
      ->check(between(std::int64_t{1}, std::int64_t{4096}))
      ->type_name("N")
      ->group(group);
  verb.add_flag("--no-prefetch", flags.no_prefetch,
                "ZeRO-3: gather parameters when they are needed, not ahead")
      ->group(group);
  verb.add_flag("--no-overlap", flags.no_overlap, "Wait for each gradient reduction before backward goes on")
      ->group(group);
  verb.add_option("--progress", flags.progress,
                  "Threads that move calls on while ranks compute; auto: where cores are free for them")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str()
      ->group(group);
  verb.add_option("--timeout", flags.timeout, "Longest wait for one call, as 90s or 2h; 0: for ever")
      ->type_name("TIME")
      ->capture_default_str()
      ->group(group);
}

void declare_files(CLI::App& verb, TrainFlags& flags) {
  const char* const group = "Checkpoints";
  verb.add_option("--save", flags.save, "Write checkpoints to this folder")->type_name("DIR")->group(group);
  verb.add_option("--save-every", flags.save_every, "Every N iterations; default: at the end only")
      ->check(between(std::int64_t{1}, k_most_iterations))
      ->type_name("N")
      ->group(group);
  verb.add_option("--resume", flags.resume, "Go on from the newest checkpoint of this folder")
      ->type_name("DIR")
      ->group(group);
}

Result<void> check_transport(const TrainFlags& flags) {
  const Transport transport = flags.chosen_transport();
  if (!flags.mpi.empty() && transport == Transport::threads) {
    return failure("--mpi: the ranks are threads of this process; add --transport mpi");
  }
  const std::int64_t launched = number_from_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}).value_or(1);
  if (transport == Transport::threads && launched > 1) {
    return failure(
        fmt::format("mpirun has started {} processes, and each would train alone; add --transport mpi, or "
                    "leave mpirun out and give --ranks {}",
                    launched, launched));
  }
  if (flags.device == "cpu" && transport == Transport::nccl) {
    return failure("--device cpu: --transport nccl moves GPU memory; use --transport threads or mpi");
  }
  if (flags.device == "cuda" && transport == Transport::mpi) {
    return failure("--device cuda: --transport mpi moves host memory; use --transport nccl");
  }
  return {};
}

}  // namespace

void TrainFlags::declare(CLI::App& verb) {
  verb.add_option("CONFIG", config, config_kinds_text("19M"))->required();
  verb.add_option("--iterations", iterations, "Optimizer steps, those before --resume included")
      ->check(between(std::int64_t{1}, k_most_iterations))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--seed", recipe.seed,
                  "Of parameters and data; default: that of the configuration, else 1234")
      ->check(between(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->type_name("N");
  verb.add_option("--rotary-fraction", rotary_fraction,
                  "Part of each head that rotary positions turn; default: rotary_pct of the file, else 1")
      ->check(between(0.0, 1.0))
      ->type_name("X");
  verb.add_option("--framework", framework, "The trainer has the rules of commlens only")->type_name("NAME");
  verb.add_option("-o,--output", trace, "Record the calls in this folder")
      ->type_name("DIR")
      ->capture_default_str();
  verb.add_option("--format", output.format, "table, json or csv")
      ->check(CLI::IsMember({"table", "json", "csv"}))
      ->capture_default_str();
  declare_data(verb, *this);
  recipe.declare(verb);
  declare_files(verb, *this);
  declare_execution(verb, *this);
  layout.declare(verb, false);
}

Transport TrainFlags::chosen_transport() const {
  return transport == "mpi" ? Transport::mpi : transport == "nccl" ? Transport::nccl : Transport::threads;
}

bool TrainFlags::uses_mpi() const {
  const Transport chosen = chosen_transport();
  return chosen == Transport::mpi || (chosen == Transport::nccl && (!mpi.empty() || has_launcher()));
}

Result<void> check_flags(const TrainFlags& flags) {
  if (!flags.framework.empty() && flags.framework != "commlens") {
    return failure(
        fmt::format("--framework {}: the trainer sends what the rules of commlens say; leave "
                    "--framework out (predict and compare take {})",
                    flags.framework, flags.framework));
  }
  const RecipeFlags& recipe = flags.recipe;
  if (recipe.learning_rate && recipe.min_learning_rate.value_or(0) > *recipe.learning_rate) {
    return failure(
        fmt::format("--min-lr {}: it is above --lr {}", *recipe.min_learning_rate, *recipe.learning_rate));
  }
  if (const auto timeout = parse_duration(flags.timeout); !timeout) {
    return failure("--timeout: " + timeout.error().message);
  }
  if (flags.save_every > 0 && flags.save.empty()) {
    return failure("--save-every: say where to with --save DIR");
  }
  return check_transport(flags);
}

namespace {

/// Of each of `here` ranks on this machine: its share of the cores, but no more than its largest product
/// keeps busy. To wake a thread for less than some million operations costs what it saves.
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

Result<engine::TrainOptions> train_options(const TrainFlags& flags, const Job& job) {
  engine::TrainOptions options;
  options.iterations = flags.iterations;
  if (const Result<void> ok = apply_recipe(flags.recipe, job.recipe, options); !ok) {
    return tl::unexpected(ok.error());
  }
  options.prefetch = !flags.no_prefetch;
  options.overlap = !flags.no_overlap;
  options.device = !flags.device.empty()                         ? flags.device
                   : flags.chosen_transport() == Transport::nccl ? "cuda"
                                                                 : "cpu";
  const std::int64_t here = flags.uses_mpi() ? local_ranks(job.layout.ranks) : job.layout.ranks;
  options.threads = flags.threads.value_or(usual_threads(job, here));
  options.trace = flags.trace;
  options.save_every = flags.save_every;
  if (!flags.save.empty()) {
    options.save = flags.save;
  }
  if (!flags.resume.empty()) {
    options.resume = flags.resume;
  }
  return options;
}

std::int64_t launched_ranks() {
  return number_from_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}).value_or(1);
}

std::int64_t local_rank(std::int64_t rank) {
  return number_from_environment({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
      .value_or(rank);
}

std::int64_t local_ranks(std::int64_t ranks) {
  return number_from_environment({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}).value_or(ranks);
}

}  // namespace commlens
