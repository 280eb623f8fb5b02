// A configuration file of the kind INPUT_NAME suggests: read, validated and, when the job is small, planned.
#include "commlens/model/readers/read_config.hpp"
#include "commlens/plan/planner.hpp"
#include "tests/fuzz/input_file.hpp"

namespace {

using namespace commlens;

/// Larger jobs are as correct but take seconds.
bool is_small(const Job& job) {
  return job.layout.ranks <= 64 && job.model.layers <= 16 && job.train.micro_batches <= 16 &&
         job.layout.virtual_stages <= 4 && job.model.experts <= 8;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const InputFolder folder;
  const std::filesystem::path file = folder.write(INPUT_NAME, as_text(bytes, size));
  const Result<Job> read = read_config({file.string()}, "");
  if (!read) {
    return 0;
  }
  const Result<Job> job = validated(*read);
  if (!job || !is_small(*job)) {
    return 0;
  }
  if (const Result<Plan> plan = make_plan(*job)) {
    plan->trace(2);
  }
  return 0;
}
