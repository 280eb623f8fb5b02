#pragma once
#include <cstdint>
#include <vector>

#include "commlens/model/job.hpp"
#include "commlens/model/version.hpp"

namespace commlens::megatron {

/// What the releases of Megatron core do differently, from 0.7.0 on. Each field has the place in the release
/// that changed it, below megatron/ of its tag; docs/frameworks/megatron.md has the values and the recorded
/// runs that prove them.
struct Behaviour {
  KnownVersion version;
  /// Settings that come with this range of releases, separated by spaces: older ones do not have them, or
  /// send otherwise and have no rules here.
  std::string_view brings;

  /// 0.7: written by rules of its own (old_stage.cpp), of the library alone: what the script sends was not
  /// recorded.
  bool has_rules_of_its_own = false;

  // The training loop.
  /// Stamps of the start: a second minimum, and a gather of ten timers. training/training.py:1138 of 0.16.0.
  bool stamps_start = true;
  /// Keys of the optimizer's parameter groups are gathered, of dense and of expert parameters.
  /// core/optimizer/__init__.py:364 of 0.14.0.
  bool gathers_optimizer_keys = true;
  /// The rerun state machine counts ranks that ask for another run, unless it is disabled.
  /// core/rerun_state_machine.py:269, training/config/resilience_config.py:21 of 0.14.0.
  bool reruns_by_default = true;
  /// The loss, on the last stage: once an iteration over data and context ranks, else with each micro-batch
  /// over data ranks, and over context ranks if there are several. training/training.py:2541 of 0.13.0.
  bool reports_loss_once = true;
  /// Whether the step succeeded, its norm and learning rate go to all ranks of a replica.
  /// training/training.py:2503 of 0.11.0.
  bool agrees_on_step = true;
  /// All 24 timers are gathered at each log iteration whatever the level of timing. training/training.py of
  /// 0.16.0.
  bool gathers_timers = false;
  /// The first iteration prints its times too, whatever the log interval. training/training.py:2180 of
  /// 0.16.0.
  bool logs_first_iteration = true;
  /// The attention mask is the last one of a batch, behind position ids. core/utils.py:2119 of 0.18.0.
  bool mask_is_last = true;
  /// A stage with multi-token prediction sends tokens, labels, loss mask, [mask,] positions as the only stage
  /// does; else tokens, positions, labels, loss mask. training/utils.py of 0.16.0.
  bool mtp_batch_is_whole = true;
  /// Empty descriptions of packed sequences, an int64 and an int32 broadcast without elements: none; one on
  /// stages that take tokens; two on those and one on the last stage. training/utils.py of 0.16.0, of 0.17.0,
  /// of 0.18.0.
  enum class EmptyPackings : std::uint8_t { none, one, two };
  EmptyPackings empty_packings = EmptyPackings::none;
  /// With virtual stages all chunks of the first and the last stage take batches, not only the first and the
  /// last one. core/parallel_state.py of 0.13.0, pretrain_gpt.py of 0.15.0.
  bool every_chunk_takes_batches = false;

  // Gradients and parameters.
  /// Tokens are counted over data and context ranks, else over data ranks alone.
  /// core/distributed/finalize_model_grads.py of 0.13.0.
  bool counts_tokens_with_cp = true;
  /// The norm is taken without clipping too, and is one where all optimizers share a group.
  /// core/optimizer/optimizer.py:1866 of 0.12.0.
  bool takes_one_norm = true;
  /// Zeros are counted though nobody asked. core/optimizer/clip_grads.py:226 of 0.12.0.
  bool counts_zeros_always = false;
  /// Zeros are counted in int64, else in fp32. core/optimizer/clip_grads.py:222 of 0.17.0.
  bool counts_zeros_as_integers = true;
  /// The first step that clips asks whether an optimizer has a norm of its own for multi-token prediction.
  /// core/optimizer/optimizer.py of 0.19.0.
  bool asks_for_mtp_norm = true;

  // Mixture of experts.
  /// Experts have a grid of their own (expert-tensor-parallel-size), else they are parts of data ranks.
  /// core/parallel_state.py:871 of 0.10.0.
  bool has_expert_grid = true;
  /// The allgather dispatcher gathers a map and probabilities of all experts, else the chosen ones.
  /// core/transformer/moe/token_dispatcher.py of 0.10.0.
  bool gathers_expert_map = true;
  /// Shared experts that overlap nothing: ahead of the router, between dispatch and the gather over expert
  /// tensor ranks, behind the combination. core/transformer/moe/moe_layer.py of 0.13.0, of 0.15.0.
  enum class SharedExperts : std::uint8_t { ahead, between, behind };
  SharedExperts shared_experts = SharedExperts::ahead;
  /// The alltoall dispatcher exchanges probabilities too. core/transformer/moe/token_dispatcher.py of 0.12.1.
  bool exchanges_probabilities = true;
  /// One balancing loss at a time, whose metric has one name: that of sequences gathers the scores of tokens
  /// in place of counts, and a single rank sends no metric. Else each kind counts its tokens and has a metric
  /// of its own. core/transformer/moe/router.py, training/training.py of 0.14.0.
  bool has_one_balance = false;
  /// Those scores have the type of the router's logits if they are not normalised, else they are fp32.
  /// core/transformer/moe/router.py of 0.12.0.
  bool keeps_type_of_scores = false;
  /// Tokens per expert are summed for the balancing loss with a coefficient of 0 too, and by one rank alone;
  /// also in the first pass of what is computed again. core/transformer/moe/router.py of 0.11.0, of 0.12.0.
  bool sums_without_coefficient = false;
  bool sums_without_gradients = false;
  /// Metrics of experts whose coefficient is 0: not sent; summed over the stages; and over the ranks that
  /// share a sequence, as if it were not 0. core/transformer/moe/moe_utils.py of 0.11.0, of 0.12.0.
  enum class IdleMetrics : std::uint8_t { none, stages, stages_and_tokens };
  IdleMetrics idle_metrics = IdleMetrics::stages;
  /// Over which ranks metrics are averaged at last: none; data ranks, of metrics that came with a group
  /// without them; data ranks, data and context ranks, of all but those that came with a group that has them;
  /// data and context ranks, of all. core/transformer/moe/moe_logging.py of 0.14.0, of 0.16.0, of 0.18.0, of
  /// 0.19.0.
  enum class AveragedMetrics : std::uint8_t {
    none,
    data_unless_in,
    data,
    data_and_context,
    all_over_data_and_context
  };
  AveragedMetrics averaged_metrics = AveragedMetrics::data_and_context;
  /// Metrics that no layer recorded have values of layers of multi-token prediction too.
  /// core/transformer/moe/moe_utils.py of 0.17.0.
  bool counts_idle_mtp_metrics = true;
  /// The z loss is averaged over all ranks of a stage first. core/transformer/moe/router.py:697 of 0.19.0.
  bool averages_z_loss = true;

  // Multi-token prediction.
  /// Its accuracy: two gathers of each layer with tensor ranks, and two more metrics.
  /// core/transformer/multi_token_prediction.py:502 of 0.19.0.
  bool measures_mtp_accuracy = true;
};

/// Of the job's release: the newest known one that is not newer.
const Behaviour& behaviour(const Job& job);
/// The range of releases that brings a setting, if it is newer than the job's; else empty.
std::string_view release_that_brings(const Job& job, std::string_view setting);
/// The releases, in ascending order.
std::vector<KnownVersion> known_versions();

}  // namespace commlens::megatron
