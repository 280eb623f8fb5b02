#include "commlens/frameworks/megatron/stage_context.hpp"

#include <utility>

#include "commlens/frameworks/megatron/source.hpp"

namespace commlens::megatron {
namespace {

const Rule k_timer_barrier{"megatron.timer_barrier", k_new_source<"core/timers.py:151">};

}  // namespace

StageContext::StageContext(ProgramBuilder& builder, std::int64_t of_stage, std::vector<ChunkLayout> of_chunks)
    : out(builder),
      job(builder.job()),
      options(megatron::options(builder.job())),
      behaviour(megatron::behaviour(builder.job())),
      groups(builder),
      shares(builder.job()),
      stage(of_stage),
      chunks(std::move(of_chunks)) {
  for (const ChunkLayout& chunk : chunks) {
    parameters.push_back(chunk_parameters(job, chunk));
  }
}

bool StageContext::has_tied_copy() const {
  for (const std::vector<ModuleParameter>& chunk : parameters) {
    for (const ModuleParameter& parameter : chunk) {
      if (parameter.has_tied_copy) {
        return true;
      }
    }
  }
  return false;
}

std::int64_t StageContext::moe_layers() const {
  std::int64_t count = 0;
  for (const ChunkLayout& chunk : chunks) {
    count += megatron::moe_layers(job, chunk);
  }
  return count;
}

std::int64_t StageContext::mtp_layers() const {
  std::int64_t count = 0;
  for (const ChunkLayout& chunk : chunks) {
    count += chunk.mtp_layers;
  }
  return count;
}

void StageContext::level1_barrier() const {
  if (has_script() && options.timing_level > 0 && options.barriers_at_level1) {
    out.barrier(groups.world, k_timer_barrier);
  }
}

}  // namespace commlens::megatron
