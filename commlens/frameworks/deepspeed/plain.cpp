#include "commlens/frameworks/deepspeed/plain.hpp"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/model_tree.hpp"
#include "commlens/frameworks/deepspeed/module_messages.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/session.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"
#include "commlens/frameworks/deepspeed/zero3.hpp"

namespace commlens::deepspeed {
namespace {

const Rule k_items{"trainer.items_in_batch", "accelerate 1.15.0 utils/operations.py:355 gather"};
const Rule k_loss{"trainer.loss", "transformers 5.23.0 trainer.py _maybe_log_save_evaluate"};
const Rule k_flops{"trainer.flops",
                   "transformers 5.23.0 trainer_pt_utils.py:290 distributed_broadcast_scalars"};
/// What the Trainer of transformers gathers, one number of each rank.
class TrainerCalls {
 public:
  explicit TrainerCalls(ProgramBuilder& out)
      : out_(out), is_used_(options(out.job()).is_trainer && out.job().layout.dp > 1) {}

  bool is_used() const { return is_used_; }

  /// Before the first step.
  Program start() { return written(Phase::init, {k_items_of_batch}); }
  /// After a step: what it logs, and how many items count of the batch that follows.
  Program step() {
    return logs() ? written(Phase::other, {k_mean_loss, k_sum_of_flops, k_items_of_batch})
                  : written(Phase::other, {k_items_of_batch});
  }
  /// After the last one. What is left of the flops once they are logged is an integer, 0.
  Program end() {
    return logs() ? written(Phase::other, {k_mean_loss, k_sum_of_flops, {&k_flops, DType::int64}})
                  : written(Phase::other, {k_sum_of_flops});
  }

 private:
  struct Number {
    const Rule* rule;
    DType dtype;
  };
  static constexpr Number k_items_of_batch{&k_items, DType::int64};
  static constexpr Number k_mean_loss{&k_loss, DType::fp32};
  static constexpr Number k_sum_of_flops{&k_flops, DType::fp32};

  bool logs() const { return options(out_.job()).logs_steps; }

  Program written(Phase phase, std::initializer_list<Number> numbers) {
    out_.set_phase(phase);
    for (const Number& number : is_used_ ? numbers : std::initializer_list<Number>{}) {
      out_.all_gather(out_.groups.world, {1}, number.dtype, *number.rule, "number of each rank");
    }
    return out_.take();
  }

  ProgramBuilder& out_;
  bool is_used_;
};

/// Training on one rank, stages 0 to 2.
class PlainRun {
 public:
  PlainRun(ProgramBuilder& out, EngineRank rank)
      : out_(out),
        job_(*rank.job),
        rank_(std::move(rank)),
        passes_(out, *rank_.tree, pass_options(job_), rank_.messages) {
    rank_.compute_until = [this](const LocalParameter& parameter) { passes_.backward_until(parameter.name); };
    rank_.end_backward = [this] { passes_.end_backward(); };
  }

  Program init() {
    out_.set_phase(Phase::init);
    write_parameter_broadcasts(out_, rank_);
    return out_.take();
  }

  Program iteration(std::int64_t number) {
    const Options& own = options(job_);
    if (is_in(own.evaluated_before, number)) {
      out_.set_phase(Phase::other);
      passes_.forward();
    }
    for (std::int64_t micro_batch = 0; micro_batch < job_.train.micro_batches; ++micro_batch) {
      write_micro_batch(number, micro_batch);
    }
    out_.set_phase(Phase::optimizer);
    write_step(out_, rank_, is_in(own.overflows_in, number));
    if (own.saves_after == number) {
      write_checkpoint(out_, rank_, {});
    }
    return out_.take();
  }

 private:
  static bool is_in(const std::vector<std::int64_t>& numbers, std::int64_t number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
  }

  void write_micro_batch(std::int64_t iteration, std::int64_t micro_batch) {
    const auto number = static_cast<std::int32_t>(micro_batch);
    rank_.before_forward(iteration, number);
    out_.set_phase(Phase::forward, number);
    passes_.forward();
    out_.set_phase(Phase::backward, number);
    write_checkpoint_gathers(out_, job_.model.layers);
    passes_.start_backward();
    write_gradients(out_, rank_, micro_batch + 1 == job_.train.micro_batches);
  }

  ProgramBuilder& out_;
  const Job& job_;
  EngineRank rank_;
  PassRunner passes_;
};

/// What comes before a forward pass: a refill of the data loader, and once the inputs of AutoTP.
void write_before_forward(ProgramBuilder& out, std::int64_t iteration, std::int32_t micro_batch) {
  const Job& job = out.job();
  const std::int64_t before = iteration * job.train.micro_batches + micro_batch;
  if (options(job).has_sequence_loader && before % job.layout.cp == 0) {
    out.set_phase(Phase::other, micro_batch);
    write_refill(out);
  }
  if (options(job).auto_tp && job.layout.tp > 1 && before == 0) {
    out.set_phase(Phase::forward, micro_batch);
    write_first_inputs(out);
  }
}

/// After how many iterations the refills of the data loader come at the same places again.
std::int64_t period(const Job& job) {
  const std::int64_t ranks = options(job).has_sequence_loader ? job.layout.cp : 1;
  return ranks / std::gcd(ranks, job.train.micro_batches);
}

/// Programs whose last `period` ones repeat for ever in turn.
StagePrograms in_turn(Program init, std::vector<Program> iterations, std::int64_t period) {
  StagePrograms programs{std::move(init), {}};
  const auto steady = static_cast<std::int64_t>(iterations.size()) - period;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(iterations.size()); ++i) {
    Program& program = iterations[static_cast<std::size_t>(i)];
    if (i <= steady) {
      programs.iterations.push_back(std::move(program));
    } else {
      programs.others.push_back({static_cast<Iteration>(i), period, std::move(program)});
    }
  }
  return programs;
}

/// With what the Trainer gathers around the steps, of which so many are made.
StagePrograms with_trainer(Zero3Programs written, TrainerCalls& trainer, std::int64_t steps) {
  written.init.append(trainer.start());
  StagePrograms programs{std::move(written.init), {}};
  const Program after = trainer.step();
  const auto last = static_cast<std::size_t>(steps - 1);
  Program ending = written.iterations[std::min(last, written.iterations.size() - 1)];
  ending.append(trainer.end());
  programs.others.push_back({static_cast<Iteration>(last), 0, std::move(ending)});
  for (Program& iteration : written.iterations) {
    iteration.append(after);
    programs.iterations.push_back(std::move(iteration));
  }
  return programs;
}

}  // namespace

Result<StagePrograms> write_plain(const Job& job, Plan& plan) {
  ProgramBuilder out(plan);
  out.set_reduction(Reduction::sum);
  const ModelTree tree = model_tree(job);
  EngineRank rank;
  rank.job = &job;
  rank.groups = engine_groups(out);
  rank.tree = &tree;
  rank.parameters = tree.parameters;
  rank.model_ranks = job.layout.model_ranks();
  rank.has_mpu = job.layout.model_ranks() > 1 ||
                 (job.layout.cp > 1 && options(job).sequence_groups == SequenceGroups::mpu);
  rank.messages = module_messages(out);
  rank.before_forward = [&out](std::int64_t iteration, std::int32_t micro_batch) {
    write_before_forward(out, iteration, micro_batch);
  };
  Zero3Programs written;
  write_random_state(out);
  if (optimizer_path(job) == OptimizerPath::zero3) {
    written = write_zero3(out, rank, period(job));
    if (!written.refusal.empty()) {
      return failure(std::move(written.refusal));
    }
  } else {
    PlainRun run(out, std::move(rank));
    written.init = run.init();
    const bool has_first_inputs = options(job).auto_tp && job.layout.tp > 1;
    const std::int64_t special =
        std::max<std::int64_t>(last_special_iteration(job), has_first_inputs ? 0 : -1);
    for (std::int64_t i = 0; i <= special + period(job); ++i) {
      written.iterations.push_back(run.iteration(i));
    }
  }
  TrainerCalls trainer(out);
  if (trainer.is_used()) {
    return with_trainer(std::move(written), trainer, job.iterations);
  }
  return in_turn(std::move(written.init), std::move(written.iterations), period(job));
}

}  // namespace commlens::deepspeed
