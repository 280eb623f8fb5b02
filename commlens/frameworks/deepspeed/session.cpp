#include "commlens/frameworks/deepspeed/session.hpp"

#include <algorithm>

#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"

namespace commlens::deepspeed {
namespace {

const Rule k_barrier{"checkpoint.barrier", k_new_source<"runtime/engine.py:4900 save_checkpoint">};
const Rule k_gather{"checkpoint.gather_partitioned_activations",
                    k_source<"runtime/activation_checkpointing/checkpointing.py:294 "
                             "gather_partitioned_activations">};
const Rule k_tag{"checkpoint.tag", k_new_source<"runtime/engine.py:4858 _checkpoint_tag_validation">};

constexpr std::int64_t k_tag_bytes = 20;  // SHA-1

void write_tag_check(ProgramBuilder& out) {
  for (const Reduction compared : {Reduction::max, Reduction::min}) {
    out.set_reduction(compared);
    out.all_reduce(out.groups.world, {k_tag_bytes}, DType::uint8, k_tag,
                   "largest and smallest hash of the tag");
  }
  out.set_reduction(Reduction::sum);
}

}  // namespace

std::int64_t last_special_iteration(const Job& job) {
  const Options& own = options(job);
  std::int64_t last = own.saves_after.value_or(-1);
  for (const auto* iterations : {&own.evaluated_before, &own.overflows_in, &own.skipped.iterations}) {
    for (const std::int64_t iteration : *iterations) {
      last = std::max(last, iteration);
    }
  }
  return last;
}

void write_checkpoint(ProgramBuilder& out, const EngineRank& rank, const std::function<void()>& inner) {
  out.set_phase(Phase::other);
  out.barrier(out.groups.world, k_barrier);
  if (options(*rank.job).compares_tags) {
    write_tag_check(out);
  }
  if (behaviour(*rank.job).has_barriers_of_data_ranks) {
    for (std::int64_t turn = 0; turn < rank.groups.data_ranks; ++turn) {
      out.barrier(rank.groups.data, k_barrier);
    }
  }
  if (inner) {
    inner();
  }
  out.barrier(out.groups.world, k_barrier);
}

void write_checkpoint_gathers(ProgramBuilder& out, std::int64_t layers) {
  const Job& job = out.job();
  const std::int64_t ranks = job.layout.model_ranks();
  if (!job.train.partition_activations || job.train.recompute != Recompute::full || ranks == 1) {
    return;
  }
  const std::int64_t elements = job.train.micro_batch * job.model.sequence * job.model.hidden;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    out.all_gather(out.groups.tp, {elements / ranks}, job.train.dtype, k_gather, "checkpointed block input");
  }
}

}  // namespace commlens::deepspeed
