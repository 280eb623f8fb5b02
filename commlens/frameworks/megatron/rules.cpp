// The rule set of Megatron core and of its training loop. The source of a rule is beside it;
// docs/frameworks/megatron.md has the limits.
#include <algorithm>
#include <numeric>
#include <utility>

#include "commlens/base/check.hpp"
#include "commlens/frameworks/megatron/behaviour.hpp"
#include "commlens/frameworks/megatron/core_reader.hpp"
#include "commlens/frameworks/megatron/framework.hpp"
#include "commlens/frameworks/megatron/old_stage.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/reader.hpp"
#include "commlens/frameworks/megatron/settings.hpp"
#include "commlens/frameworks/megatron/stage_layout.hpp"
#include "commlens/frameworks/megatron/stage_runner.hpp"

namespace commlens::megatron {
namespace {

/// Iterations that take another program: `every`-th ones from `first` on.
struct Period {
  std::int64_t first = 0;
  std::int64_t every = 0;
};

/// Both at once within so many iterations; nothing if they never are.
std::optional<Period> both(const Period& a, const Period& b, std::int64_t iterations) {
  if (a.every > iterations || b.every > iterations) {
    return std::nullopt;
  }
  const std::int64_t every = std::lcm(a.every, b.every);
  for (std::int64_t at = a.first; at < std::min(a.first + every, iterations); at += a.every) {
    if (at >= b.first && (at - b.first) % b.every == 0) {
      return Period{at, every};
    }
  }
  return std::nullopt;
}

/// The programs of iterations that print their times or evaluate, those that do most first; no more than the
/// job has iterations.
class OtherPrograms {
 public:
  OtherPrograms(const StageContext& stage, StageRunner& runner) : stage_(stage), runner_(runner) {}

  std::vector<OtherProgram> write() {
    const Options& own = stage_.options;
    const bool has_script = stage_.has_script();
    const bool evaluates = has_script && own.eval_interval > 0 && own.eval_iterations > 0;
    const Period logged{own.log_interval - 1, own.log_interval};
    const Period evaluated{own.eval_interval - 1, own.eval_interval};
    const Period after{own.eval_interval, own.eval_interval};
    const bool gathers_layers = own.is_megatron_fsdp && own.sharding == Sharding::optim_grads_params;
    const bool gathers_buckets = own.overlap_param_gather && stage_.is_distributed();
    const bool is_changed_after = evaluates && (gathers_layers || gathers_buckets);
    follows_always_ = is_changed_after && own.eval_interval == 1;
    const bool logs = has_script && own.log_interval > 1;
    if (logs && evaluates) {
      add(both(logged, evaluated, stage_.job.iterations), {.is_logged = true, .is_evaluated = true});
      if (is_changed_after) {
        add(both(logged, after, stage_.job.iterations), {.is_logged = true, .follows_evaluation = true});
      }
    }
    const bool always_logs = has_script && own.log_interval == 1;
    if (evaluates) {
      add(evaluated, {.is_logged = always_logs, .is_evaluated = true});
    }
    if (is_changed_after) {
      add(after, {.is_logged = always_logs, .follows_evaluation = true});
    }
    if (logs) {
      add(logged, {.is_logged = true});
    }
    return std::move(programs_);
  }

 private:
  void add(const std::optional<Period>& period, IterationKind kind) {
    if (!period || period->first >= stage_.job.iterations) {
      return;
    }
    if (period->first > 0) {
      kind.follows_evaluation |= follows_always_;
      write(*period, kind);
      return;
    }
    IterationKind first = kind;
    first.is_first = first.is_first_step = true;
    first.is_logged |= stage_.behaviour.logs_first_iteration;
    write(Period{0, 0}, first);
    if (period->every > 0) {
      add(Period{period->every, period->every}, kind);
    }
  }

  void write(const Period& period, const IterationKind& kind) {
    runner_.write_iteration(kind);
    programs_.push_back({static_cast<Iteration>(period.first), period.every, stage_.out.take()});
  }

  const StageContext& stage_;
  StageRunner& runner_;
  std::vector<OtherProgram> programs_;
  bool follows_always_ = false;  // an evaluation each iteration
};

StagePrograms write_stage(const std::vector<ChunkLayout>& chunks, std::int64_t stage, Plan& plan) {
  ProgramBuilder out(plan);
  const StageContext context(out, stage, chunks);
  StageRunner runner(context);
  StagePrograms programs;
  runner.write_start();
  programs.init = out.take();
  const bool logs = context.options.log_interval == 1;
  const std::int64_t skipped = std::min(first_overflows(context.job).sure, context.job.iterations);
  const auto add = [&](IterationKind kind) {
    kind.is_first = programs.iterations.empty();
    kind.is_logged = logs || (kind.is_first && context.behaviour.logs_first_iteration);
    runner.write_iteration(kind);
    programs.iterations.push_back(out.take());
  };
  for (std::int64_t iteration = 0; iteration < skipped; ++iteration) {
    add({.overflows = true});
  }
  add({.is_first_step = true});
  add({});
  programs.others = OtherPrograms(context, runner).write();
  return programs;
}

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> stages, Plan& plan) {
  std::vector<StagePrograms> programs;
  if (behaviour(job).has_rules_of_its_own) {
    const ParameterList all(job.model);
    for (const std::int64_t stage : stages) {
      ProgramBuilder out(plan);
      programs.push_back({{}, {stage_iteration(out, job, all, stage)}});
    }
    return programs;
  }
  const Result<StageLayouts> layouts = stage_layouts(job);
  if (!layouts) {
    return tl::unexpected(layouts.error());
  }
  for (const std::int64_t stage : stages) {
    programs.push_back(write_stage((*layouts)[static_cast<std::size_t>(stage)], stage, plan));
  }
  return programs;
}

bool has_sequence_parallelism(const Job&) { return true; }

/// The paper has none of context ranks, which split the sequence, of experts and of FSDP.
bool fits_equations(const Job& job) {
  const Options& own = options(job);
  return job.layout.cp == 1 && job.model.experts == 0 && !own.is_megatron_fsdp && !own.is_torch_fsdp2;
}

}  // namespace

void overlap_data(Job& job, bool gradients, bool parameters) {
  options(job).overlap_grad_reduce = gradients;
  options(job).overlap_param_gather = gradients && parameters;
}

FrameworkRules rules() {
  return {
      .name = k_name,
      .engine = k_name,
      .versions = known_versions(),
      .default_version = known_versions().size() - 1,
      .base = "",
      .check = check,
      .unverified = unverified,
      .write = write,
      .takes_newer_models = true,
      .fits_equations = fits_equations,
      .takes_any_order = true,
      .has_context_parallelism = true,
      .has_expert_parallelism = true,
      .settings = {.adopt = adopt,
                   .prepare = prepare,
                   .settle = settle,
                   .has_sequence_parallelism = has_sequence_parallelism,
                   .takes_uneven_stages = true,
                   .splits_heads_of_groups = true},
      .memory = {.gradient_bytes = gradient_bytes,
                 .expert_layers = expert_layers,
                 .drop_recomputed = drop_recomputed,
                 .held = held},
      .advice = {.place = "of Megatron", .setting = setting_text, .changes = advised_changes},
      .variations = add_variations,
      .case_file = {.arguments = k_name,
                    .read_arguments = [](const ConfigNode& map, std::int64_t padded_vocab,
                                         const std::string&) { return job_from_megatron(map, padded_vocab); },
                    .read_beside_arguments = read_case_keys},
      .overlap = overlap_data,
      .causes = causes()};
}

}  // namespace commlens::megatron
