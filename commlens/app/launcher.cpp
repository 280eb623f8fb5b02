#include "commlens/app/launcher.hpp"

#include <cstdlib>

#include "commlens/base/result.hpp"
#include "commlens/base/text.hpp"

namespace commlens {

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

std::int64_t rank_of_process() {
  return number_from_environment({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "RANK"})
      .value_or(0);
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
