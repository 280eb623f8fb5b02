#pragma once
#include <cstdint>
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/engine/data_parallel.hpp"
#include "commlens/engine/groups.hpp"
#include "commlens/engine/loss_scaler.hpp"
#include "commlens/model/job.hpp"

namespace commlens::engine {

/// Where checkpoints are, and the seed of the run, which decides about data and start values.
struct CheckpointPlace {
  std::filesystem::path folder;
  std::uint64_t seed = 0;
};

/// How far a training is.
struct Progress {
  std::int64_t iteration = 0;
  std::optional<LossScaler::State> scaler;  // absent in a checkpoint of another element type than fp16
};

/// Writes DIR/iteration-N: the fp32 values and moments, each rank the part it owns, with checksums, and then
/// DIR/latest. A reader sees a whole checkpoint or the one before, also after a crash of the machine (fsync).
/// A save that fails removes what it wrote. Collective over the world (barriers). Throws SystemError.
void save_checkpoint(const CheckpointPlace& place, const Progress& progress, const Job& job,
                     DataParallel& parameters, RankGroups& groups);

/// Makes the folder, so that one that cannot be written, or that another job writes to, is refused before the
/// training, not after it.
Result<void> prepare_save_folder(const std::filesystem::path& folder);

/// Iterations the newest checkpoint of the folder has behind it. Fails when there is none, or it is of
/// another model, tensor or pipeline layout or seed (the data-parallel size and the ZeRO stage may differ).
Result<std::int64_t> check_checkpoint(const CheckpointPlace& place, const Job& job);

/// Fills in values and moments from the newest checkpoint and returns how far it is. Collective (one
/// barrier): nobody returns before every file was found whole. Throws SystemError when a file is missing or
/// damaged (checksums).
Progress load_checkpoint(const CheckpointPlace& place, const Job& job, DataParallel& parameters,
                         RankGroups& groups);

}  // namespace commlens::engine
