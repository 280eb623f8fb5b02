#include "commlens/frameworks/torchtitan/writer.hpp"

#include <memory>
#include <numeric>

#include "commlens/frameworks/torch/pipeline.hpp"
#include "commlens/frameworks/torch/pipeline_rank.hpp"
#include "commlens/frameworks/torchtitan/rule_names.hpp"
#include "commlens/frameworks/torchtitan/stage.hpp"
#include "commlens/frameworks/torchtitan/steps.hpp"

namespace commlens::torchtitan {
namespace {

using pytorch::PipelineAction;
using pytorch::PipelineShape;

PipelineShape pipeline_shape(const Job& job) {
  PipelineShape shape = pytorch::pipeline_shape(job);
  shape.micro_batches /= options(job).accumulation_steps;
  return shape;
}

/// What a step does beside training.
struct Extras {
  bool logs = false;
  bool saves = false;
};

class Writer {
 public:
  Writer(Plan& plan, std::int64_t rank, std::span<const PipelineAction> actions)
      : out_(plan),
        job_(plan.job),
        options_(options(plan.job)),
        groups_(out_, plan.job),
        shape_(pipeline_shape(plan.job)),
        pipeline_(out_, groups_, shape_, rank, actions),
        work_(out_) {
    if (job_.layout.pp == 1) {
      whole_ = std::make_unique<Stage>(out_, groups_, 0, 1);
      parts_ = {&whole_->modules()};
      return;
    }
    pipeline_.add_stages(
        [&](std::int64_t stage) { return std::make_unique<Stage>(out_, groups_, stage, shape_.stages()); });
    for (const pytorch::PipelineRank::Local& own : pipeline_.stages()) {
      parts_.push_back(&own.stage->modules());
    }
  }

  Result<void> check() const { return pipeline_.check(); }

  StagePrograms write() {
    StagePrograms programs;
    out_.set_phase(Phase::init);
    initialise(out_, groups_, parts_);
    programs.init = out_.take();
    const Checkpoints& checkpoints = options_.checkpoints;
    const bool saves_always = checkpoints.is_used && checkpoints.interval == 1;
    const bool logs_always = options_.log_frequency == 1;
    const bool is_alone = checkpoints.is_used && last_step() == 1;
    const bool saves_first = checkpoints.is_used && checkpoints.saves_first_step;
    programs.iterations.push_back(
        step({.logs = true, .saves = saves_always || is_alone || saves_first}, true));
    constexpr int until_they_repeat = 3;
    for (int iteration = 1; iteration <= until_they_repeat; ++iteration) {
      programs.iterations.push_back(step({.logs = logs_always, .saves = saves_always}, false));
    }
    add_others(programs);
    return programs;
  }

 private:
  bool logs_at(Iteration iteration) const {
    return iteration == 0 || (iteration + std::int64_t{1}) % options_.log_frequency == 0;
  }

  std::int64_t last_step() const { return options_.steps.value_or(job_.iterations); }

  void add_other(StagePrograms& programs, Iteration first, std::int64_t every, const Extras& extras) {
    if (first > 0) {
      programs.others.push_back({first, every, step(extras, false)});
    }
  }

  /// Steps that log or save where most do not.
  void add_others(StagePrograms& programs) {
    const Checkpoints& checkpoints = options_.checkpoints;
    const std::int64_t log = options_.log_frequency;
    const auto before = [](std::int64_t step) { return static_cast<Iteration>(step - 1); };
    if (checkpoints.is_used && checkpoints.interval > 1) {
      const std::int64_t save = checkpoints.interval;
      if (last_step() % save != 0 && last_step() <= k_most_steps) {
        const Iteration last = before(last_step());
        add_other(programs, last, 0, {.logs = logs_at(last), .saves = true});
      }
      const std::int64_t both = std::lcm(save, log);
      if (log > 1 && both <= k_most_steps) {
        add_other(programs, before(both), both, {.logs = true, .saves = true});
      }
      add_other(programs, before(save), save, {.logs = log == 1, .saves = true});
    }
    if (log > 1) {
      const bool saves = checkpoints.is_used && checkpoints.interval == 1;
      add_other(programs, before(log), log, {.logs = true, .saves = saves});
    }
  }

  void train() {
    if (whole_ == nullptr) {
      for (std::int64_t pass = 0; pass < options_.accumulation_steps; ++pass) {
        pipeline_.step();
      }
      return;
    }
    for (std::int32_t micro_batch = 0; micro_batch < job_.train.micro_batches; ++micro_batch) {
      out_.set_phase(Phase::forward, micro_batch);
      whole_->forward();
      out_.set_phase(Phase::backward, micro_batch);
      whole_->backward();
    }
  }

  /// Of this step. A backward pass in halves leaves none of what was sharded when it began.
  Gradients take_gradients() {
    Gradients gradients;
    const auto add = [&](pytorch::ShardedStage& shards) {
      for (const pytorch::Parameter* const parameter : shards.take_reduced()) {
        const bool is_apart = parameter->is_expert && job_.layout.ep > 1;
        (is_apart ? gradients.experts : gradients.dense) += parameter->is_alias ? 0 : 1;
      }
    };
    if (whole_ != nullptr) {
      add(*whole_->shards());
    }
    for (const pytorch::PipelineRank::Local& own : pipeline_.stages()) {
      add(*own.stage->shards());
    }
    return gradients;
  }

  Program step(const Extras& extras, bool is_first) {
    out_.set_phase(Phase::other);
    count_tokens(out_, groups_);
    train();
    out_.set_phase(Phase::optimizer);
    clip(out_, groups_, take_gradients());
    balance_experts(out_, groups_, parts_);
    if (whole_ != nullptr) {
      work_.optimizer(whole_->updated());
    }
    for (const pytorch::PipelineRank::Local& own : pipeline_.stages()) {
      work_.optimizer(own.stage->updated());
    }
    out_.set_phase(Phase::other);
    if (extras.logs) {
      report_loss(out_, groups_);
    }
    if (extras.saves) {
      save_checkpoint(out_, groups_, parts_);
    }
    if (is_first && job_.layout.ranks > 1) {
      out_.barrier(out_.groups.world, k_first_barrier);
    }
    return out_.take();
  }

  static constexpr std::int64_t k_most_steps = std::int64_t{1} << 30;

  ProgramBuilder out_;
  const Job& job_;
  const Options& options_;
  Groups groups_;
  PipelineShape shape_;
  pytorch::PipelineRank pipeline_;
  std::unique_ptr<Stage> whole_;  // without a pipeline
  Parts parts_;
  ModelWork work_;
};

}  // namespace

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> ranks, Plan& plan) {
  std::vector<StagePrograms> programs;
  const std::vector<pytorch::RankActions> actions = job.layout.pp > 1
                                                        ? pytorch::actions_of_ranks(job, pipeline_shape(job))
                                                        : std::vector<pytorch::RankActions>();
  for (const std::int64_t rank : ranks) {
    const std::span<const PipelineAction> own =
        actions.empty() ? std::span<const PipelineAction>() : actions[static_cast<std::size_t>(rank)];
    Writer writer(plan, rank, own);
    programs.push_back(writer.write());
    if (const Result<void> ok = writer.check(); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  return programs;
}

}  // namespace commlens::torchtitan
