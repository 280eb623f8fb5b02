#pragma once
#include <cstdint>
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/engine/data_parallel.hpp"
#include "commlens/engine/groups.hpp"
#include "commlens/model/job.hpp"

namespace commlens::engine {

/// Writes DIR/iteration-N: the fp32 values and moments, each rank the part it owns, and then DIR/latest. A
/// reader sees a whole checkpoint or the one before. Collective over the world (barriers). Throws
/// SystemError.
void save_checkpoint(const std::filesystem::path& folder, std::int64_t iteration, const Job& job,
                     DataParallel& parameters, RankGroups& groups);

/// Makes the folder, so that one that cannot be written is refused before the training, not after it.
Result<void> prepare_save_folder(const std::filesystem::path& folder);

/// Iterations the newest checkpoint of the folder has behind it. Fails when there is none, or it is of
/// another model, tensor or pipeline layout (the data-parallel size and the ZeRO stage may differ).
Result<std::int64_t> check_checkpoint(const std::filesystem::path& folder, const Job& job);

/// Fills in values and moments from the newest checkpoint and returns its iteration. Nothing is communicated.
/// Throws SystemError when a file is missing or damaged.
std::int64_t load_checkpoint(const std::filesystem::path& folder, const Job& job, DataParallel& parameters,
                             const RankGroups& groups);

}  // namespace commlens::engine
