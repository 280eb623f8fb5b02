#include "commlens/frameworks/torch/pipeline.hpp"

#include <memory>

#include "commlens/frameworks/torch/pipeline_rank.hpp"
#include "commlens/frameworks/torch/tree_stage.hpp"
#include "commlens/frameworks/torch/update.hpp"

namespace commlens::pytorch {
namespace {

/// A job whose model is a case file's tree.
class PipelineWriter {
 public:
  PipelineWriter(Plan& plan, std::int64_t rank, std::span<const PipelineAction> actions)
      : out_(plan),
        groups_(out_, plan.job),
        shape_(pipeline_shape(plan.job)),
        rank_(out_, groups_, shape_, rank, actions),
        work_(out_) {
    rank_.add_stages([&](std::int64_t stage) {
      return std::make_unique<TreeStage>(out_, groups_, stage, shape_.stages());
    });
  }

  Result<void> check() const { return rank_.check(); }

  StagePrograms write() {
    StagePrograms programs;
    const Job& job = out_.job();
    out_.set_phase(Phase::init);
    rank_.initialise(true);
    programs.init = out_.take();
    if (scatters_weights(job)) {
      rank_.initialise(false);
      programs.init_of_other_tensor_ranks = out_.take();
    }
    const std::int64_t iterations = options(job).ddp.is_used ? 4 : 2;
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
      rank_.step();
      out_.set_phase(Phase::optimizer);
      for (const PipelineRank::Local& own : rank_.stages()) {
        sum_in_optimizer(out_, groups_, own.stage->modules());
        work_.optimizer(own.stage->updated(), job.train.dtype);  // states are of the parameters' type
      }
      programs.iterations.push_back(out_.take());
    }
    return programs;
  }

 private:
  ProgramBuilder out_;
  Groups groups_;
  PipelineShape shape_;
  PipelineRank rank_;
  ModelWork work_;
};

}  // namespace

bool runs_in_lock_step(const Job& job) {
  const PipelineShape shape = pipeline_shape(job);
  return behaviour(job).runs_in_lock_step && !shape.is_single() &&
         shape.schedule != PipelineSchedule::dual_pipe_v;
}

PipelineShape pipeline_shape(const Job& job) {
  const Pipeline& own = options(job).pipeline;
  return {own.schedule, job.layout.pp, job.layout.virtual_stages, job.train.micro_batches, own.file};
}

std::vector<RankActions> actions_of_ranks(const Job& job, const PipelineShape& shape) {
  if (shape.is_single()) {
    return {};
  }
  const Behaviour& release = behaviour(job);
  const RuntimeSteps steps{.pairs_passes = release.pairs_passes,
                           .has_reductions = !release.reduces_in_backward,
                           .has_waits = release.waits_for_reductions};
  // The rules check that a lock step ends.
  return runs_in_lock_step(job) ? lock_step_actions(shape).value() : runtime_actions(shape, steps);
}

Result<std::vector<StagePrograms>> write_pipeline(const Job& job, std::span<const std::int64_t> ranks,
                                                  Plan& plan) {
  std::vector<StagePrograms> programs;
  const std::vector<RankActions> actions = actions_of_ranks(job, pipeline_shape(job));
  for (const std::int64_t rank : ranks) {
    const std::span<const PipelineAction> own =
        actions.empty() ? std::span<const PipelineAction>() : actions[static_cast<std::size_t>(rank)];
    PipelineWriter writer(plan, rank, own);
    programs.push_back(writer.write());
    if (const Result<void> ok = writer.check(); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  return programs;
}

}  // namespace commlens::pytorch
