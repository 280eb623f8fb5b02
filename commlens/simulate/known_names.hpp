#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/simulate/training_run.hpp"

namespace commlens {

/// A device as tables name it.
struct Accelerator {
  std::string name;
  std::vector<std::string> words;  // all occur in the table's name
  double memory_below_gb = 0;      // of devices with less memory alone; 0: of all
  RunHardware hardware;
  CoefficientValues priors;
  std::string maker;
  std::vector<std::string> alike;   // devices with the same multiprocessors
  bool has_sustained_peak = false;  // the peak is what devices keep up, below the one that data sheets state
};

/// A framework as tables name it, and what it does.
struct RunFramework {
  std::string name;
  std::vector<std::string> words;
  std::optional<DataParallelKind> data_kind;
  RunBehaviour behaviour;
  CoefficientValues priors;
  bool has_host_optimizer_of_shards = false;  // the host updates parameters that are sharded
  std::vector<DataParallelKind> searched;     // what a search tries of it
  bool has_sharded_runs = false;              // runs that it was fitted to had sharded parameters
  /// Bytes that the update of a parameter moves in its runs (optimizer_kernels): fp32 states, a 16-bit copy.
  double update_bytes = 30;
};

/// A model whose table leaves out what decides its time.
struct KnownModel {
  std::vector<std::string> words;
  bool has_latent_attention = false;
  std::int64_t shared_experts = 0;
};

/// A framework whose jobs are planned, and the frameworks of tables whose runs are alike, the nearest first.
struct JobFramework {
  std::string name;
  std::vector<std::string> runs;
  bool has_other_trainer = false;  // their loops and kernels are not the job's own
  std::string own;                 // but of these runs they are; empty: of none
};

/// data/training/accelerators.json.
struct KnownNames {
  std::vector<Accelerator> accelerators;
  std::vector<RunFramework> frameworks;
  std::vector<KnownModel> models;
  std::vector<JobFramework> jobs;
};
const KnownNames& known_names();

const Accelerator* find_accelerator(std::string_view name, double memory_gb);
/// The one of that name in the list; null: none.
const Accelerator* accelerator_named(std::string_view name);
/// The last of the list where no other is meant.
const RunFramework& find_framework(std::string_view name);
/// The frameworks of tables that stand for a job's, the nearest first; the job's own name where none does.
std::vector<const RunFramework*> frameworks_of_job(std::string_view framework);
/// The one of them whose loops and kernels are the job's own; null: none, or all.
const RunFramework* own_framework(std::string_view framework);
/// Whether those runs are of another trainer, which shares the framework's libraries alone.
bool has_other_trainer(std::string_view framework);
const KnownModel* find_model(std::string_view name);

/// The letters of `text` as small ones.
std::string in_lower_case(std::string_view text);

}  // namespace commlens
