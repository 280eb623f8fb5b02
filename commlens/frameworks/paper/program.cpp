#include "commlens/frameworks/paper/program.hpp"

#include <numeric>

#include "commlens/frameworks/not_covered.hpp"
#include "commlens/frameworks/paper/shares.hpp"
#include "commlens/model/parameters.hpp"
#include "commlens/plan/model_work.hpp"
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

/// The calls of the equations on one pipeline stage.
class StageEquations {
 public:
  StageEquations(ProgramBuilder& out, const Job& job, const std::set<Correction>& corrections,
                 const StageShare& share)
      : out_(out), job_(job), corrections_(corrections), share_(share), work_(out) {}

  Program iteration() {
    for (std::int64_t i = 0; i < job_.train.micro_batches; ++i) {
      const auto micro_batch = static_cast<std::int32_t>(i);
      compute(micro_batch);
      write_tensor_parallel(micro_batch);
      write_pipeline(micro_batch);
    }
    write_data_parallel();
    return out_.take();
  }

 private:
  bool corrects(Correction correction) const { return corrections_.contains(correction); }

  /// The equations have no order: what a stage computes precedes what it sends.
  void compute(std::int32_t micro_batch) {
    const StagePart part{.layers = share_.layers,
                         .has_embedding = share_.is_first,
                         .has_final_norm = share_.is_last,
                         .has_head = share_.is_last};
    out_.set_phase(Phase::forward, micro_batch);
    work_.forward_stage(part);
    out_.set_phase(Phase::backward, micro_batch);
    work_.backward_stage(part);
  }

  void write_tensor_parallel(std::int32_t micro_batch) {
    if (job_.layout.tp == 1) {
      return;
    }
    const Elements activation{job_.train.micro_batch * job_.model.sequence * job_.model.hidden};
    const DType dtype = corrects(Correction::activation_dtype) ? reduced_activations(job_) : job_.train.dtype;
    out_.set_phase(Phase::forward, micro_batch);
    for (std::int64_t i = 0; i < tensor_calls(); ++i) {
      out_.all_reduce(out_.groups.tp, activation, dtype, k_tensor, "activation");
    }
  }

  /// Eq. 5 has 6 per layer (two forward, two recomputed, two backward) and one for the embedding.
  std::int64_t tensor_calls() const {
    if (corrects(Correction::replicated_ranks) && tensor_ranks(job_) == 1) {
      return 0;
    }
    const bool recomputes = job_.train.recompute == Recompute::full;
    std::int64_t calls = 6 * share_.layers + 1;
    if (corrects(Correction::no_recompute) && !recomputes) {
      calls -= 2 * share_.layers;
    }
    if (corrects(Correction::parallel_residual) && job_.model.parallel_residual) {
      const bool counts_recompute = recomputes || !corrects(Correction::no_recompute);
      calls -= share_.layers * (counts_recompute ? 2 : 1);
    }
    calls -= corrects(Correction::first_stage_embedding) && !share_.is_first ? 1 : 0;
    calls += corrects(Correction::unembedding) && share_.is_last ? 1 : 0;
    return calls;
  }

  /// Every tensor rank carries its share of a boundary, so that a replica's sum is Eq. 4.
  void write_pipeline(std::int32_t micro_batch) {
    const std::int64_t whole = job_.train.micro_batch * job_.model.sequence * job_.model.hidden;
    const Elements part{ceil_div(whole, job_.layout.model_ranks())};
    const BoundaryParts parts = boundary_parts(job_);
    const bool corrected = corrects(Correction::whole_boundaries);
    const Elements activation = corrected && !parts.activations ? Elements{whole} : part;
    const Elements gradient = corrected && !parts.gradients ? Elements{whole} : part;
    const DType dtype = job_.train.dtype;
    out_.set_phase(Phase::forward, micro_batch);
    if (!share_.is_first) {
      out_.recv(out_.groups.from_previous, activation, dtype, k_pipeline, "activation");
    }
    if (!share_.is_last) {
      out_.send(out_.groups.to_next, activation, dtype, k_pipeline, "activation");
    }
    out_.set_phase(Phase::backward, micro_batch);
    if (!share_.is_last) {
      out_.recv(out_.groups.from_next, gradient, dtype, k_pipeline, "activation gradient");
    }
    if (!share_.is_first) {
      out_.send(out_.groups.to_previous, gradient, dtype, k_pipeline, "activation gradient");
    }
  }

  void write_data_parallel() {
    if (job_.layout.dp == 1) {
      return;
    }
    switch (job_.train.zero_stage) {
      case 0:
        return write_ddp();
      case 3:
        return write_zero3();
      default:
        return write_zero12();
    }
  }

  void write_ddp() {
    out_.set_phase(Phase::backward);
    for (std::int64_t i = 0; i < reductions(); ++i) {
      out_.all_reduce(out_.groups.dp, share_.gradients, gradient_dtype(), k_ddp, "gradients");
    }
    if (corrects(Correction::sharded_bf16) && shards_optimizer(job_)) {
      out_.set_phase(Phase::optimizer);
      out_.all_gather_whole(out_.groups.dp, share_.gathered, job_.train.dtype, k_zero_gather, "parameters");
    }
  }

  /// Of gradients, where parameters are not sharded.
  std::int64_t reductions() const {
    const bool every = corrects(Correction::every_micro_batch) && reduces_every_micro_batch(job_);
    return every ? job_.train.micro_batches : 1;
  }

  void write_zero12() {
    out_.set_phase(Phase::backward);
    const bool by_all_reduce = corrects(Correction::all_reduce) && reduces_by_all_reduce(job_);
    for (std::int64_t i = 0; i < reductions(); ++i) {
      if (by_all_reduce) {
        out_.all_reduce(out_.groups.dp, share_.gradients, gradient_dtype(), k_zero_scatter, "gradients");
      } else {
        out_.reduce_scatter_whole(out_.groups.dp, share_.gradients, gradient_dtype(), k_zero_scatter,
                                  "gradients");
      }
    }
    out_.set_phase(Phase::optimizer);
    out_.all_gather_whole(out_.groups.dp, share_.gathered, job_.train.dtype, k_zero_gather, "parameters");
  }

  void write_zero3() {
    const bool every = corrects(Correction::every_micro_batch);
    for (std::int64_t i = 0; i < (every ? job_.train.micro_batches : 1); ++i) {
      out_.set_phase(Phase::forward);
      out_.all_gather_whole(out_.groups.dp, share_.gathered, job_.train.dtype, k_zero3_gather, "parameters");
      out_.set_phase(Phase::backward);
      out_.all_gather_whole(out_.groups.dp, share_.gathered, job_.train.dtype, k_zero3_gather, "parameters");
      out_.reduce_scatter_whole(out_.groups.dp, share_.gradients, gradient_dtype(), k_zero3_scatter,
                                "gradients");
    }
  }

  DType gradient_dtype() const {
    return corrects(Correction::gradient_dtype) ? reduced_gradients(job_) : job_.train.dtype;
  }

  ProgramBuilder& out_;
  const Job& job_;
  const std::set<Correction>& corrections_;
  const StageShare& share_;
  ModelWork work_;
};

}  // namespace

Result<std::vector<StagePrograms>> write_equations(const Job& job, const std::set<Correction>& corrections,
                                                   std::span<const std::int64_t> stages, Plan& plan) {
  const Result<std::vector<StageShare>> shares = stage_shares(job, corrections, stages);
  if (!shares) {
    return tl::unexpected(shares.error());
  }
  std::vector<StagePrograms> programs;
  for (const StageShare& share : *shares) {
    ProgramBuilder out(plan);
    programs.push_back({{}, {StageEquations(out, job, corrections, share).iteration()}});
  }
  return programs;
}

Result<void> check_equations(const Job& job) {
  if (job.layout.cp > 1 || job.layout.ep > 1 || job.model.experts > 0 || job.layout.sequence_parallel) {
    return not_covered("the paper has no equation for context, expert or sequence parallelism");
  }
  if (job.layout.virtual_stages > 1) {
    return not_covered("the paper has no equation for interleaved pipelines");
  }
  if (job.train.recompute == Recompute::selective || job.train.schedule != Schedule::one_f_one_b) {
    return not_covered(
        "the paper's equations know neither selective recompute nor pipeline schedules; leave --recompute "
        "selective and --schedule out");
  }
  if (job.model.family != Family::gpt) {
    return not_covered("Eq. 1 of the paper counts the parameters of a GPT alone");
  }
  return {};
}

}  // namespace commlens::paper
