#pragma once
#include <array>
#include <string_view>

#include "commlens/frameworks/source_text.hpp"
#include "commlens/model/job.hpp"
#include "commlens/model/version.hpp"

namespace commlens::neox {

inline constexpr Literal k_default_commit{"4bc66703"};
inline constexpr Literal k_sequence_parallel_commit{"8b43196f"};
/// A file and line of the first commit, as rules cite them, and of the second.
template <Literal Place>
inline constexpr const char* k_source = k_source_text<"neox", k_default_commit, Place>;
template <Literal Place>
inline constexpr const char* k_sequence_parallel_source =
    k_source_text<"neox", k_sequence_parallel_commit, Place>;

/// The DeepSpeed that both vendor.
inline constexpr Literal k_vendored_deepspeed{"0.14.0"};

/// What differs between versions of GPT-NeoX. Source: recorded runs of both (tests/golden/neox).
struct Behaviour {
  KnownVersion version;
  /// A job with one stage runs DeepSpeed's pipeline engine too, which has no loss all_reduce of its own,
  /// starts with a count of parameters and forces overlap_comm off. 4bc66703: the plain engine.
  bool always_runs_pipeline_engine = false;
  /// sequence_parallel: megatron/mpu/mappings.py:116 (reduce_scatter), :152 (gather) of 8b43196f; 4bc66703
  /// has none.
  bool has_sequence_parallelism = false;
  std::string_view deepspeed = k_vendored_deepspeed.view();
  bool data_parallelism_is_recorded = true;  // whether the recorded runs of the version had dp > 1
};

inline constexpr std::array k_behaviours = {
    Behaviour{.version = recorded_version(k_default_commit.view())},
    Behaviour{.version = recorded_version(k_sequence_parallel_commit.view()),
              .always_runs_pipeline_engine = true,
              .has_sequence_parallelism = true,
              .data_parallelism_is_recorded = false}};

/// The first version, and the first that splits activations along the sequence.
inline constexpr std::string_view k_default_version = k_default_commit.view();
inline constexpr std::string_view k_sequence_parallel_version = k_sequence_parallel_commit.view();

/// Of the version that the job names (behaviour_of).
inline const Behaviour& behaviour(const Job& job) {
  return behaviour_of(k_behaviours, job.framework_version);
}

}  // namespace commlens::neox
