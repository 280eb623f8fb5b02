#include "commlens/frameworks/torch/behaviour.hpp"

#include <array>

namespace commlens::pytorch {
namespace {

using DivideFactor = Behaviour::DivideFactor;
using AloneShard = Behaviour::AloneShard;
using PartialClip = Behaviour::PartialClip;
using FirstStep = Behaviour::FirstStep;

constexpr std::array<Behaviour, 6> k_behaviours = {{
    {.version = {"2.6-2.7", "", "2.7", "2.6.0"},
     .reduces_in_original_dtype = false,
     .sums_partial_in_reduce_dtype = false,
     .keeps_split_parameters_frozen = false,
     .broadcasts_to_replicas_first = false,
     .average_where_factor_is = DivideFactor::never,
     .alone_shard = AloneShard::all_gather_and_reduce_scatter,
     .reshards_root_if_asked = false,
     .finishes_in_reverse = false,
     .clips_each_norm = false,
     .partial_clip = PartialClip::scalars,
     .first_step = FirstStep::nothing,
     .infers_gradients = false,
     .object_bytes = 108,
     .runs_in_lock_step = true,
     .waits_for_reductions = false,
     .pairs_passes = false,
     .reduces_in_backward = true},
    {.version = {"2.8", "2.8", "2.8", ""},
     .reduces_in_original_dtype = false,
     .sums_partial_in_reduce_dtype = false,
     .keeps_split_parameters_frozen = false,
     .broadcasts_to_replicas_first = false,
     .average_where_factor_is = DivideFactor::all,
     .alone_shard = AloneShard::all_gather_and_reduce_scatter,
     .finishes_in_reverse = false,
     .clips_each_norm = false,
     .partial_clip = PartialClip::scalars,
     .first_step = FirstStep::nothing,
     .infers_gradients = false,
     .object_bytes = 108,
     .runs_in_lock_step = true,
     .waits_for_reductions = false,
     .pairs_passes = false,
     .reduces_in_backward = true,
     .sums_when_scaling = true},
    {.version = {"2.9", "2.9", "2.9", "2.9.1"},
     .reduces_in_original_dtype = false,
     .sums_partial_in_reduce_dtype = false,
     .keeps_split_parameters_frozen = false,
     .broadcasts_to_replicas_first = false,
     .average_where_factor_is = DivideFactor::all,
     .alone_shard = AloneShard::reduce_scatter,
     .finishes_in_reverse = false,
     .clips_each_norm = false,
     .partial_clip = PartialClip::scalars,
     .first_step = FirstStep::uneven_handshake,
     .infers_gradients = false,
     .object_bytes = 108,
     .runs_in_lock_step = true,
     .waits_for_reductions = false,
     .pairs_passes = false,
     .gpipe_needs_micro_batches = true,
     .reduces_in_backward = true,
     .sums_when_scaling = true},
    {.version = {"2.10-2.11", "2.10", "2.11", "2.10.0 2.11.0"},
     .reduces_in_original_dtype = false,
     .sums_partial_in_reduce_dtype = false,
     .keeps_split_parameters_frozen = false,
     .broadcasts_to_replicas_first = false,
     .finishes_in_reverse = false,
     .partial_clip = PartialClip::summed_twice,
     .first_step = FirstStep::handshake,
     .infers_gradients = false,
     .object_bytes = 108,
     .waits_for_reductions = false},
    {.version = {"2.12-2.14", "2.12", "2.14", "2.12.1"},
     .reduces_in_original_dtype = false,
     .sums_partial_in_reduce_dtype = false,
     .finishes_in_reverse = false,
     .first_step = FirstStep::vote_chain,
     .waits_for_reductions = false},
    {.version = {"2.15", "2.15", "2.15", "2.15.0"}},
}};
constexpr std::size_t k_newest = k_behaviours.size() - 1;

}  // namespace

const Behaviour& behaviour(const Job& job) {
  return behaviour_of(k_behaviours, job.framework_version, k_newest);
}

std::vector<KnownVersion> known_versions() { return versions_of(k_behaviours); }

}  // namespace commlens::pytorch
