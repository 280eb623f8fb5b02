// The first layouts of a search, simulated event by event.
#include "commlens/app/search_retimed.hpp"

#include <cmath>

#include "commlens/app/job_source.hpp"
#include "commlens/app/machine_choice.hpp"
#include "commlens/app/search_layouts.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "commlens/simulate/known_names.hpp"
#include "commlens/simulate/timeline/simulation.hpp"

namespace commlens {
namespace {

/// The layout as flags have it.
Overrides overrides_of_layout(const SearchQuestion& question, const RankedLayout& ranked) {
  const RunLayout& layout = ranked.layout;
  Overrides flags;
  flags.ranks = layout.ranks;
  flags.tp = layout.tensor;
  flags.pp = layout.pipeline;
  flags.cp = layout.context;
  flags.ep = layout.expert;
  flags.sp = layout.has_sequence_parallel;
  flags.micro_batch = layout.micro_batch;
  flags.global_batch = layout.global_batch;
  flags.seq = question.model.sequence;
  flags.virtual_stages = layout.virtual_stages;
  flags.schedule = layout.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
  flags.recompute = ranked.behaviour.recompute;
  flags.zero = layout.data_kind == DataParallelKind::replicated ? 0 : is_sharded(layout.data_kind) ? 3 : 1;
  flags.attention = Attention::flash;
  flags.dtype = DType::bf16;
  return flags;
}

/// Of the frameworks whose jobs are planned, the one that makes runs of this kind.
std::string framework_of_runs(const std::string& runs) {
  for (const JobFramework& job : known_names().jobs) {
    for (const RunFramework* const framework : frameworks_of_job(job.name)) {
      if (framework->name == runs) {
        return job.name;
      }
    }
  }
  return "";
}

RetimedLayout retimed_layout(Planner& planner, Job job, const RetimedOn& on, const RankedLayout& ranked) {
  if (is_sharded(ranked.layout.data_kind) || ranked.layout.data_kind == DataParallelKind::owners) {
    return {std::nullopt, "layouts that share parameters are not planned from here", ""};
  }
  if (const auto overlap = rules_of(job).overlap) {
    const bool splits_optimizer = ranked.layout.data_kind == DataParallelKind::optimizer;
    overlap(job, ranked.behaviour.overlaps_gradients,
            ranked.behaviour.overlaps_parameters && splits_optimizer);
  }
  const Result<Plan> plan = planner.plan(job, overrides_of_layout(on.question, ranked));
  if (!plan) {
    return {std::nullopt, plan.error().message, ""};
  }
  SimulationOptions options;
  options.machine = &on.question.machine;
  options.lender = on.lender;
  options.library = on.library;
  options.overlaps_tensor = ranked.behaviour.overlaps_tensor;
  options.has_intervals = false;
  const Result<Simulation> simulation = simulated(*plan, options, on.calibration);
  return simulation ? RetimedLayout{simulation->seconds.value, "", simulation->library}
                    : RetimedLayout{std::nullopt, simulation.error().message, ""};
}

}  // namespace

Result<std::vector<RetimedLayout>> retimed_layouts(const std::vector<std::string>& config,
                                                   const SearchAnswer& answer, const RetimedOn& on,
                                                   std::size_t count) {
  const std::string framework = framework_of_runs(answer.searched.framework);
  return read_config(config, framework).map([&](const Job& job) {
    Planner planner{Events()};
    std::vector<RetimedLayout> retimed;
    const std::vector<RankedLayout>& fastest = answer.ranking.fastest;
    for (std::size_t place = 0; place < std::min(count, fastest.size()); ++place) {
      retimed.push_back(retimed_layout(planner, job, on, fastest[place]));
    }
    return retimed;
  });
}

OrderAgreement order_agreement(const SearchResult& result) {
  OrderAgreement agreement;
  const std::vector<RankedLayout>& fastest = result.answer.ranking.fastest;
  const double spread = result.answer.basis.spread;
  for (std::size_t first = 0; first < result.retimed.size(); ++first) {
    const std::optional<double>& one = result.retimed[first].seconds;
    agreement.layouts += one ? 1 : 0;
    for (std::size_t second = first + 1; one && second < result.retimed.size(); ++second) {
      const std::optional<double>& other = result.retimed[second].seconds;
      if (!other || *one == *other || fastest[first].seconds == fastest[second].seconds) {
        continue;
      }
      ++agreement.pairs;
      if (*one < *other) {
        ++agreement.same;
      } else {
        agreement.within_error += std::abs(std::log(*one / *other)) <= spread ? 1 : 0;
      }
    }
  }
  return agreement;
}

}  // namespace commlens
