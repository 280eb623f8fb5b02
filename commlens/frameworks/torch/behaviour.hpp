#pragma once
#include <cstdint>
#include <vector>

#include "commlens/model/job.hpp"
#include "commlens/model/version.hpp"

namespace commlens::pytorch {

/// What PyTorch releases do differently, from 2.6 on. Each field has the place in the release that changed
/// it, below torch/distributed/ of the wheel unless another folder is given; docs/frameworks/torch.md.
struct Behaviour {
  KnownVersion version;
  /// reduce_dtype not given: gradients are reduced in the dtype of the original parameter, else in that of
  /// the gradient. fsdp/_fully_shard/_fsdp_param.py:1162 of 2.15, _fsdp_collectives.py:561 of 2.12.
  bool reduces_in_original_dtype = true;
  /// Gradients that are partial sums of tensor ranks are summed in the reduce dtype, else in their own.
  /// _fsdp_param.py:1265 of 2.15, :764 of 2.9.
  bool sums_partial_in_reduce_dtype = true;
  /// What tensor ranks split stays frozen, else it is made anew and trained. tensor/parallel/style.py:127 of
  /// 2.11, :123 of 2.9.
  bool keeps_split_parameters_frozen = true;
  /// Of FSDP1's hybrid strategies: module states go to the replicas and then into each shard group, else the
  /// other way round. fsdp/_init_utils.py:614 of 2.9.
  bool broadcasts_to_replicas_first = true;
  /// A divide factor is applied by AVG where it is the size of the shard group (`shard`) or of all data ranks
  /// (`all`); `never`: always PREMUL_SUM, and the all_reduce of replicas is AVG. _fsdp_collectives.py:735 of
  /// 2.10, :701 of 2.9, :385 of 2.6.
  enum class DivideFactor : std::uint8_t { never, all, shard };
  DivideFactor average_where_factor_is = DivideFactor::shard;
  /// Collectives of a shard group of one: `none`; a reduce_scatter; an all_gather too.
  /// _fsdp_collectives.py:503 of 2.10, _fsdp_param_group.py:316 of 2.9.
  enum class AloneShard : std::uint8_t { all_gather_and_reduce_scatter, reduce_scatter, none };
  AloneShard alone_shard = AloneShard::none;
  /// reshard_after_forward=True or a number reshards the root too. _fsdp_state.py:183 of 2.8, :180 of 2.6.
  bool reshards_root_if_asked = true;
  /// Reductions at the end of a pipeline: the last module first and the root last, else the root first.
  /// _fsdp_state.py:462 of 2.15.
  bool finishes_in_reverse = true;
  /// clip_grad_norm_ reduces the norms of all gradients, else their sum. tensor/_ops/_math_ops.py:319
  /// of 2.10.
  bool clips_each_norm = true;
  /// Norms of partial gradients (pure tensor parallelism): `summed`, and then multiplied for nothing;
  /// `summed_twice`: the multiplication sums them again; `scalars`: the norm of what is partial, then one
  /// all_reduce for every gradient. _math_ops.py:126 of 2.9, nn/utils/clip_grad.py:164.
  enum class PartialClip : std::uint8_t { scalars, summed_twice, summed };
  PartialClip partial_clip = PartialClip::summed;

  /// What pipeline ranks send before anything else: nothing; a handshake of neighbours, whose sends have
  /// another size than their receives in 2.9; a vote along the stages and back; a vote of all, and a
  /// connection of each pair. pipelining/schedules.py:463 and _p2p.py:380 of 2.15, stage.py:1710 of 2.12,
  /// schedules.py:595 of 2.10, stage.py:938 of 2.9.
  enum class FirstStep : std::uint8_t { nothing, uneven_handshake, handshake, vote_chain, vote };
  FirstStep first_step = FirstStep::vote;
  /// Shapes are learnt by a forward and a backward pass, else by a forward pass. stage.py:1825 of 2.12.
  bool infers_gradients = true;
  std::int64_t object_bytes = 166;  // usual, of a pickled description of shapes
  /// Schedules of several stages a rank run in lock step, else as a list of actions. schedules.py:2287
  /// of 2.10.
  bool runs_in_lock_step = false;
  /// The wait for a stage's reductions is a step of the schedule. schedules.py:1730 of 2.15.
  bool waits_for_reductions = true;
  /// Passes of DualPipeV that overlap are one step of the schedule. schedules.py:3138 of 2.12, :2795 of 2.9.
  bool pairs_passes = true;
  /// GPipe refuses fewer micro-batches than stages, as 1F1B does from then on. schedules.py:566 of 2.9.
  bool gpipe_needs_micro_batches = false;
  /// Reductions are a part of the last backward pass of a stage, before its message. stage.py:657 of 2.9.
  bool reduces_in_backward = false;
  /// Gradients that are partial sums are summed once more when they are scaled. stage.py of 2.9, scale_grads.
  bool sums_when_scaling = false;
};

/// Of the job's release: the newest known one that is not newer.
const Behaviour& behaviour(const Job& job);
/// The releases, in ascending order.
std::vector<KnownVersion> known_versions();

/// torch-ddp has an older one, 1.13, which has a writer of its own (ddp_1_13.hpp).
std::vector<KnownVersion> known_versions_of_ddp();
bool is_of_1_13(const Job& job);

}  // namespace commlens::pytorch
