// The equations of arXiv 2408.10197 as calls, so that they can be compared with a log per axis and
// collective. Source: rules/paper.md §4a.
#include <fmt/format.h>

#include "commlens/model/parameters.hpp"
#include "commlens/plan/program_builder.hpp"
#include "commlens/plan/rules/rules.hpp"
#include "commlens/plan/schemes/pipeline.hpp"

namespace commlens::paper {
namespace {

const Rule k_ddp{"paper.eq2_gradients", "arXiv 2408.10197 Eq. 2 (DDP)"};
const Rule k_zero_scatter{"paper.eq2_gradient_reduce_scatter", "arXiv 2408.10197 Eq. 2 (ZeRO-1, ZeRO-2)"};
const Rule k_zero_gather{"paper.eq2_parameter_gather", "arXiv 2408.10197 Eq. 2 (ZeRO-1, ZeRO-2)"};
const Rule k_zero3_gather{"paper.eq3_parameter_gather", "arXiv 2408.10197 Eq. 3 (ZeRO-3)"};
const Rule k_zero3_scatter{"paper.eq3_gradient_reduce_scatter", "arXiv 2408.10197 Eq. 3 (ZeRO-3)"};
const Rule k_pipeline{"paper.eq4_boundary", "arXiv 2408.10197 Eq. 4"};
const Rule k_tensor{"paper.eq5_all_reduce", "arXiv 2408.10197 Eq. 5"};

/// Eq. 1's parameters of one rank: the paper adds volumes of mixed layouts, each over its own share.
Elements parameters_of_rank(const Job& job) {
  const std::int64_t count = paper_parameter_count(with_padded_vocab(job.model, 1)).value;
  return {ceil_div(count, job.layout.tp * job.layout.pp)};
}

void write_data_parallel(ProgramBuilder& out, const Job& job) {
  if (job.layout.dp == 1) {
    return;
  }
  const Elements count = parameters_of_rank(job);
  const DType dtype = job.train.dtype;
  if (job.train.zero_stage == 0) {
    out.set_phase(Phase::backward);
    out.all_reduce(out.groups.dp, count, dtype, k_ddp, "gradients");
    return;
  }
  if (job.train.zero_stage == 3) {
    out.set_phase(Phase::forward);
    out.all_gather_whole(out.groups.dp, count, dtype, k_zero3_gather, "parameters");
    out.set_phase(Phase::backward);
    out.all_gather_whole(out.groups.dp, count, dtype, k_zero3_gather, "parameters");
    out.reduce_scatter_whole(out.groups.dp, count, dtype, k_zero3_scatter, "gradients");
    return;
  }
  out.set_phase(Phase::backward);
  out.reduce_scatter_whole(out.groups.dp, count, dtype, k_zero_scatter, "gradients");
  out.set_phase(Phase::optimizer);
  out.all_gather_whole(out.groups.dp, count, dtype, k_zero_gather, "parameters");
}

void write_tensor_parallel(ProgramBuilder& out, const Job& job, std::int64_t layers,
                           std::int32_t micro_batch) {
  if (job.layout.tp == 1) {
    return;
  }
  const Elements activation{job.train.micro_batch * job.model.sequence * job.model.hidden};
  out.set_phase(Phase::forward, micro_batch);
  for (std::int64_t i = 0; i < 6 * layers + 1; ++i) {
    out.all_reduce(out.groups.tp, activation, job.train.dtype, k_tensor, "activation");
  }
}

/// Every tensor rank carries its share of a boundary, so that a replica's sum is Eq. 4.
void write_pipeline(ProgramBuilder& out, const Job& job, std::int64_t stage, std::int32_t micro_batch) {
  const Elements share{
      ceil_div(job.train.micro_batch * job.model.sequence * job.model.hidden, job.layout.model_ranks())};
  const DType dtype = job.train.dtype;
  const bool has_previous = stage > 0;
  const bool has_next = stage + 1 < job.layout.pp;
  out.set_phase(Phase::forward, micro_batch);
  if (has_previous) {
    out.recv(out.groups.from_previous, share, dtype, k_pipeline, "activation");
  }
  if (has_next) {
    out.send(out.groups.to_next, share, dtype, k_pipeline, "activation");
  }
  out.set_phase(Phase::backward, micro_batch);
  if (has_next) {
    out.recv(out.groups.from_next, share, dtype, k_pipeline, "activation gradient");
  }
  if (has_previous) {
    out.send(out.groups.to_previous, share, dtype, k_pipeline, "activation gradient");
  }
}

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> stages,
                                         Trace& tables) {
  const StageBounds bounds = partition_uniform(job.model.layers, job.layout.pp);
  std::vector<StagePrograms> programs;
  for (const std::int64_t stage : stages) {
    ProgramBuilder out(tables);
    const auto index = static_cast<std::size_t>(stage);
    for (std::int64_t i = 0; i < job.train.micro_batches; ++i) {
      const auto micro_batch = static_cast<std::int32_t>(i);
      write_tensor_parallel(out, job, bounds[index + 1] - bounds[index], micro_batch);
      write_pipeline(out, job, stage, micro_batch);
    }
    write_data_parallel(out, job);
    programs.push_back({{}, {out.take()}});
  }
  return programs;
}

Result<void> check(const Job& job) {
  if (job.layout.cp > 1 || job.layout.ep > 1 || job.model.experts > 0 || job.layout.sequence_parallel) {
    return failure(
        "the paper has no equation for context, expert or sequence parallelism; use --framework megatron");
  }
  if (job.layout.virtual_stages > 1) {
    return failure("the paper has no equation for interleaved pipelines; use --framework megatron");
  }
  if (job.train.recompute == Recompute::selective || job.train.schedule != Schedule::one_f_one_b) {
    return failure(
        "the paper's equations know neither selective recompute nor pipeline schedules; leave --recompute "
        "selective and --schedule out");
  }
  if (job.model.family != Family::gpt) {
    return failure(
        "Eq. 1 of the paper counts the parameters of a GPT; use another --framework for other families");
  }
  return {};
}

std::vector<std::string> unverified(const Job&) { return {}; }

}  // namespace
}  // namespace commlens::paper

namespace commlens::rules {
const RuleSet paper{
    Framework::paper,       {}, "arXiv 2408.10197", &commlens::paper::check, &commlens::paper::unverified,
    &commlens::paper::write};
}  // namespace commlens::rules
