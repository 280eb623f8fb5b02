#include "commlens/frameworks/torch/behaviour.hpp"

#include <array>

#include "commlens/frameworks/torch/framework.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens::pytorch {
namespace {

using DivideFactor = Behaviour::DivideFactor;
using AloneShard = Behaviour::AloneShard;
using PartialClip = Behaviour::PartialClip;
using FirstStep = Behaviour::FirstStep;

// The newest release has the defaults; each older row is the next newer one with what was otherwise.

constexpr Behaviour k_2_15{.version = {"2.15", "2.15", "2.15", "2.15.0"}};

constexpr Behaviour k_2_12 = [] {
  Behaviour row = k_2_15;
  row.version = {"2.12-2.14", "2.12", "2.14", "2.12.1"};
  row.reduces_in_original_dtype = false;
  row.sums_partial_in_reduce_dtype = false;
  row.finishes_in_reverse = false;
  row.first_step = FirstStep::vote_chain;
  row.waits_for_reductions = false;
  return row;
}();

constexpr Behaviour k_2_11 = [] {
  Behaviour row = k_2_12;
  row.version = {"2.11", "2.11", "2.11", "2.11.0"};
  row.broadcasts_to_replicas_first = false;
  row.partial_clip = PartialClip::summed_twice;
  row.first_step = FirstStep::handshake;
  row.infers_gradients = false;
  row.object_bytes = 108;
  return row;
}();

constexpr Behaviour k_2_10 = [] {
  Behaviour row = k_2_11;
  row.version = {"2.10", "2.10", "2.10", "2.10.0"};
  row.keeps_split_parameters_frozen = false;
  return row;
}();

constexpr Behaviour k_2_9 = [] {
  Behaviour row = k_2_10;
  row.version = {"2.9", "2.9", "2.9", "2.9.1"};
  row.average_where_factor_is = DivideFactor::all;
  row.alone_shard = AloneShard::reduce_scatter;
  row.clips_each_norm = false;
  row.partial_clip = PartialClip::scalars;
  row.first_step = FirstStep::uneven_handshake;
  row.runs_in_lock_step = true;
  row.pairs_passes = false;
  row.gpipe_needs_micro_batches = true;
  row.reduces_in_backward = true;
  row.sums_when_scaling = true;
  return row;
}();

constexpr Behaviour k_2_8 = [] {
  Behaviour row = k_2_9;
  row.version = {"2.8", "2.8", "2.8", ""};
  row.alone_shard = AloneShard::all_gather_and_reduce_scatter;
  row.first_step = FirstStep::nothing;
  row.gpipe_needs_micro_batches = false;
  return row;
}();

constexpr Behaviour k_2_6 = [] {
  Behaviour row = k_2_8;
  row.version = {"2.6-2.7", "", "2.7", "2.6.0"};
  row.average_where_factor_is = DivideFactor::never;
  row.reshards_root_if_asked = false;
  row.sums_when_scaling = false;
  return row;
}();

constexpr std::array k_behaviours = {k_2_6, k_2_8, k_2_9, k_2_10, k_2_11, k_2_12, k_2_15};
constexpr std::size_t k_newest = k_behaviours.size() - 1;

}  // namespace

const Behaviour& behaviour(const Job& job) {
  const bool is_of_torch = job.framework.starts_with(k_family_prefix);
  return behaviour_of(k_behaviours, is_of_torch ? job.framework_version : options(job).release, k_newest);
}

std::vector<KnownVersion> known_versions() { return versions_of(k_behaviours); }

std::vector<KnownVersion> known_versions_of_ddp() {
  std::vector<KnownVersion> versions = known_versions();
  versions.front().first = "2.6";
  versions.insert(versions.begin(), recorded_version("1.13"));
  return versions;
}

bool is_of_1_13(const Job& job) {
  const std::vector<KnownVersion> versions = known_versions_of_ddp();
  return job.framework == k_ddp &&
         choose_version(versions, versions.size() - 1, job.framework_version).index == 0;
}

}  // namespace commlens::pytorch
