// A configuration file with a name of the kind that the program is called after: read, validated and, when
// the job is small, planned.
#include <array>
#include <utility>

#include "commlens/base/check.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "tests/fuzz/input_file.hpp"

namespace {

using namespace commlens;

constexpr std::array<std::pair<std::string_view, const char*>, 9> k_input_names = {{
    {"case_yaml", "case.yaml"},
    {"case_toml", "case.toml"},
    {"neox_yaml", "neox.yml"},
    {"hf_json", "config.json"},
    {"megatron_args", "args.txt"},
    {"megatron_script", "run.sh"},
    {"megatron_yaml", "recipe.yaml"},
    {"titan_args", "args.txt"},
    {"titan_toml", "train.toml"},
}};
const char* input_name = nullptr;

/// Larger jobs are as correct but take seconds.
bool is_small(const Job& job) {
  return job.layout.ranks <= 64 && job.model.layers <= 16 && job.train.micro_batches <= 16 &&
         job.layout.virtual_stages <= 4 && job.model.experts <= 8;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** argv) {
  const std::string name = fuzz_target_name(**argv);
  for (const auto& [target, file] : k_input_names) {
    if (target == name) {
      input_name = file;
    }
  }
  COMMLENS_CHECK(input_name != nullptr, "tests/fuzz/CMakeLists.txt names kinds of configuration only");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const InputDirectory directory;
  const std::filesystem::path file = directory.write(input_name, as_text(bytes, size));
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
