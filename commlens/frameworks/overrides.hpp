#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// The layout flags of the command line (CONTRACT §1). What is absent stays as the configuration has it.
struct Overrides {
  std::optional<std::string> framework;  // of the list
  std::optional<std::int64_t> ranks;
  std::optional<std::int64_t> dp;
  std::optional<std::int64_t> tp;
  std::optional<bool> sp;  // Megatron sequence parallelism, over the tensor group
  std::optional<std::int64_t> pp;
  std::optional<std::int64_t> cp;
  std::optional<std::int64_t> ep;
  std::optional<std::string> rank_order;  // ParallelLayout::order
  std::optional<int> zero;
  std::optional<std::int64_t> micro_batch;
  std::optional<std::int64_t> micro_batches;
  std::optional<std::int64_t> global_batch;  // sequences per optimizer step; decides micro_batches
  std::optional<std::int64_t> seq;
  std::optional<std::int64_t> vocab;
  std::optional<std::int64_t> layers;
  std::optional<std::int64_t> hidden;  // head_dim follows, ffn_hidden keeps its ratio to it
  std::optional<std::int64_t> heads;   // head_dim follows
  std::optional<DType> dtype;
  std::optional<Recompute> recompute;
  std::optional<Schedule> schedule;
  std::optional<Attention> attention;
  std::optional<std::int64_t> virtual_stages;
  std::optional<Bytes> bucket;
  std::optional<double> clip;                         // gradient clipping by global norm, 0: off
  std::optional<std::int64_t> persistence_threshold;  // ZeRO-3, elements
  std::optional<std::int64_t> hpz;                    // ZeRO++
  bool qwz = false;
  bool qgz = false;
  bool all_reduce_gradients = false;
  bool partition_activations = false;
  std::optional<std::int64_t> iterations;

  /// Whether they decide how many ranks there are.
  bool gives_world() const { return ranks || dp; }
  friend bool operator==(const Overrides&, const Overrides&) = default;
};

/// The values of --recompute, --schedule and --attention; the error names the choices.
Result<Recompute> recompute_from(std::string_view name);
Result<Schedule> schedule_from(std::string_view name);
Result<Attention> attention_from(std::string_view name);
/// "flash" or "eager".
std::string_view name_of(Attention attention);

/// The job with the flags applied; not yet `validated`. `--ranks` without `--dp` leaves dp open (what
/// remains),
/// `--dp` without `--ranks` makes the job as large as its degrees ask for. Notes what it had to change
/// besides in `warnings`. Fails for a bucket that is no integer of elements, and for settings that the
/// framework does not have.
Result<Job> with_overrides(Job job, const Overrides& flags);

}  // namespace commlens
