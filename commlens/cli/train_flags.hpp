#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/cli/console.hpp"
#include "commlens/cli/layout_flags.hpp"
#include "commlens/cli/train_recipe.hpp"
#include "commlens/engine/train.hpp"

namespace CLI {
class App;
}

namespace commlens {

/// What moves the messages of a training.
enum class Transport : std::uint8_t { threads, mpi, nccl };

/// The command line of `train`.
struct TrainFlags {
  std::vector<std::string> config;
  LayoutFlags layout;
  std::string framework;
  std::string transport = "threads";
  std::string mpi;
  std::string device;
  std::int64_t iterations = 10;
  RecipeFlags recipe;
  std::optional<double> rotary_fraction;
  std::optional<std::int64_t> threads;
  engine::DataOptions data;
  std::string vocab_file;
  std::string merge_file;
  bool no_prefetch = false;
  bool no_overlap = false;
  std::string progress = "auto";
  std::string timeout = "10min";
  std::string save;
  std::int64_t save_every = 0;
  std::string resume;
  std::string trace = "commlens-training";  // not that of `record`, which keeps the trace of another job
  OutputFlags output;                       // the format only

  void declare(CLI::App& verb);
  Transport chosen_transport() const;
  /// Whether an MPI launcher starts the ranks: --transport mpi, or nccl with --mpi or under a launcher.
  bool uses_mpi() const;
};

/// Refuses flags that contradict each other.
Result<void> check_flags(const TrainFlags& flags);

/// What flags and configuration say about how to train; the data are yet to be opened.
Result<engine::TrainOptions> train_options(const TrainFlags& flags, const Job& job);

/// How many processes a launcher started, by its variables; 1 where there are none.
std::int64_t launched_ranks();

/// This process's place among those the launcher started on this machine: by Open MPI's, MPICH's or Slurm's
/// variables; where there are none, `rank` and `ranks`.
std::int64_t local_rank(std::int64_t rank);
std::int64_t local_ranks(std::int64_t ranks);

}  // namespace commlens
