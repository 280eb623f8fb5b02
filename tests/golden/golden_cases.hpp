#pragma once

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

/// The recorded runs of real frameworks under tests/golden: a directory of each framework, in it one of each
/// run.
namespace commlens {

inline std::filesystem::path golden_directory() {
  const char* source = std::getenv("COMMLENS_SOURCE_DIR");
  return std::filesystem::path(source == nullptr ? "." : source) / "tests" / "golden";
}

/// "neox/t2p2d2" and the like, sorted.
inline std::vector<std::string> golden_cases_of(const std::string& framework) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_directory() / framework)) {
    names.push_back(framework + "/" + entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Those of the frameworks of 2024, whose jobs the paper's equations describe.
inline const std::vector<std::string>& golden_frameworks_of_2024() {
  static const std::vector<std::string> directories = {"deepspeed", "neox", "megatron", "torch_ddp"};
  return directories;
}
inline std::vector<std::string> golden_frameworks() {
  std::vector<std::string> all = golden_frameworks_of_2024();
  for (const char* release :
       {"deepspeed_0.19", "deepspeed_versions", "megatron_0.19", "megatron_versions", "torch", "torch_2.6",
        "torch_2.9", "torch_2.10", "torch_2.12", "torchtitan", "hf"}) {
    all.emplace_back(release);
  }
  return all;
}

inline std::vector<std::string> golden_cases(const std::vector<std::string>& frameworks) {
  std::vector<std::string> all;
  for (const std::string& framework : frameworks) {
    const std::vector<std::string> some = golden_cases_of(framework);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// Random jobs of PyTorch (tests/recordings/torch_random.py) that once differed from the prediction.
inline std::vector<std::string> golden_cases_of_random_torch_jobs() {
  return golden_cases_of("torch_recorded");
}

/// PyTorch on a GPU, recorded by the libraries that watch NCCL (docs/results/nccl.md).
inline std::vector<std::string> golden_cases_over_nccl() { return golden_cases_of("torch_nccl"); }

/// Recordings of our own of DeepSpeed, of what the others do not have.
inline std::vector<std::string> golden_cases_of_more_deepspeed_jobs() {
  return golden_cases_of("deepspeed_recorded");
}

/// Recordings of our own of Megatron, of what the others do not have.
/// Four more were derived from recordings (derive_megatron.py), of releases that cannot be recorded.
inline std::vector<std::string> golden_cases_of_more_megatron_jobs() {
  return golden_cases({"megatron_recorded", "megatron_derived"});
}

/// Recordings of our own of torchtitan, of what the others do not have.
inline std::vector<std::string> golden_cases_of_more_titan_jobs() {
  return golden_cases_of("torchtitan_recorded");
}

/// Recordings of our own of the Trainer of transformers, of what the others do not have.
inline std::vector<std::string> golden_cases_of_more_hf_jobs() { return golden_cases_of("hf_recorded"); }

/// As GoogleTest wants it: letters, digits and underscores.
inline std::string golden_test_name(const testing::TestParamInfo<std::string>& parameter) {
  std::string name = parameter.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

}  // namespace commlens
