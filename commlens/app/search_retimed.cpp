// The first layouts of a search, simulated event by event.
#include "commlens/app/search_retimed.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "commlens/app/job_source.hpp"
#include "commlens/app/machine_choice.hpp"
#include "commlens/app/search_layouts.hpp"
#include "commlens/frameworks/frameworks.hpp"
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
  if (!is_sharded(layout.data_kind)) {
    flags.zero = layout.data_kind == DataParallelKind::replicated ? 0 : 1;
  }
  flags.attention = Attention::flash;
  flags.dtype = DType::bf16;
  return flags;
}

/// The job under each framework that makes runs of this kind, the likeliest first.
Result<std::vector<Job>> jobs_of_runs(const std::vector<std::string>& config, const std::string& runs) {
  std::vector<Job> jobs;
  for (const JobFramework& each : known_names().jobs) {
    const std::vector<const RunFramework*> made = frameworks_of_job(each.name);
    const bool is_made = std::any_of(made.begin(), made.end(),
                                     [&](const RunFramework* framework) { return framework->name == runs; });
    if (!is_made) {
      continue;
    }
    const Result<Job> job = checked_framework(each.name).and_then(
        [&](const std::string& name) { return read_config(config, name); });
    if (!job) {
      return tl::unexpected(job.error());
    }
    jobs.push_back(*job);
  }
  return jobs;
}

/// The job with the layout's kind of data parallelism; why not where its framework has no such thing.
Result<Job> with_kind(Job job, const RankedLayout& ranked) {
  const RunLayout& layout = ranked.layout;
  const FrameworkRules& rules = rules_of(job);
  if (layout.data_kind == DataParallelKind::owners) {
    return failure("owners of whole parameters are planned by no framework");
  }
  if (is_sharded(layout.data_kind)) {
    if (rules.shard == nullptr) {
      return failure(fmt::format("{} shards no parameters", rules.name));
    }
    const std::int64_t ranks = layout.shard_group > 0 ? layout.shard_group : layout.data();
    rules.shard(job, {.ranks = ranks,
                      .copies = layout.data() / ranks,
                      .keeps_gathered = layout.data_kind == DataParallelKind::sharded_until_backward});
  } else if (rules.overlap != nullptr) {
    const bool splits_optimizer = layout.data_kind == DataParallelKind::optimizer;
    rules.overlap(job, ranked.behaviour.overlaps_gradients,
                  ranked.behaviour.overlaps_parameters && splits_optimizer);
  }
  return job;
}

/// By the first of the frameworks that can plan it.
Result<Plan> plan_of_layout(Planner& planner, const std::vector<Job>& jobs, const SearchQuestion& question,
                            const RankedLayout& ranked) {
  std::string reason = "no framework plans such jobs";
  for (const Job& each : jobs) {
    Result<Plan> plan = with_kind(each, ranked).and_then([&](const Job& job) {
      return planner.plan(job, overrides_of_layout(question, ranked));
    });
    if (plan) {
      return std::move(*plan);
    }
    reason = plan.error().message;
  }
  return failure(reason);
}

RetimedLayout simulated_layout(const Plan& plan, const RetimedOn& on, const RankedLayout& ranked) {
  if (on.question.precision == MatrixPrecision::fp4) {
    return {.reason = "plans compute in 16 bit or fp8, not in fp4"};
  }
  SimulationOptions options;
  options.machine = &on.question.machine;
  options.lender = on.lender;
  options.library = on.library;
  options.overlaps_tensor = ranked.behaviour.overlaps_tensor;
  options.dtype = on.question.precision == MatrixPrecision::bf16 ? DType::bf16 : DType::fp8;
  const Result<Simulation> simulation = simulated(plan, options, on.calibration);
  RetimedLayout layout;
  if (!simulation) {
    layout.reason = simulation.error().message;
    return layout;
  }
  layout.seconds = simulation->seconds;
  layout.library = simulation->library;
  layout.provenance =
      fmt::format("{}; kernels: {}", plan.tables.provenance.framework, simulation->compute_provenance);
  return layout;
}

}  // namespace

Result<std::vector<RetimedLayout>> retimed_layouts(const std::vector<std::string>& config,
                                                   const SearchAnswer& answer, const RetimedOn& on,
                                                   std::size_t count) {
  std::map<std::string, std::vector<Job>> jobs;
  for (const TimedSpace& each : answer.searched.spaces) {
    Result<std::vector<Job>> made = jobs_of_runs(config, each.framework);
    if (!made) {
      return tl::unexpected(made.error());
    }
    jobs.emplace(each.framework, std::move(*made));
  }
  Planner planner{Events(), false};
  std::vector<RetimedLayout> retimed;
  std::size_t simulated = 0;
  for (const RankedLayout& ranked : answer.ranking.fastest) {
    if (simulated == count) {
      break;
    }
    const std::string& framework = answer.searched.of(ranked.layout.data_kind).framework;
    const Result<Plan> plan = plan_of_layout(planner, jobs.at(framework), on.question, ranked);
    retimed.push_back(plan ? simulated_layout(*plan, on, ranked)
                           : RetimedLayout{.reason = plan.error().message});
    simulated += retimed.back().seconds ? 1 : 0;
  }
  return retimed;
}

OrderAgreement order_agreement(const SearchResult& result) {
  OrderAgreement agreement;
  const std::vector<RankedLayout>& fastest = result.answer.ranking.fastest;
  const auto spread_of = [&](std::size_t place) {
    return result.answer.searched.of(fastest[place].layout.data_kind).basis.spread;
  };
  for (std::size_t first = 0; first < result.retimed.size(); ++first) {
    const std::optional<Estimate>& one = result.retimed[first].seconds;
    agreement.layouts += one ? 1 : 0;
    for (std::size_t second = first + 1; one && second < result.retimed.size(); ++second) {
      const std::optional<Estimate>& other = result.retimed[second].seconds;
      if (!other || one->value == other->value || fastest[first].seconds == fastest[second].seconds) {
        continue;
      }
      ++agreement.pairs;
      if (one->value < other->value) {
        ++agreement.same;
      } else {
        const double apart = std::abs(std::log(one->value / other->value));
        const bool is_near = apart <= std::max(spread_of(first), spread_of(second));
        agreement.within_error += is_near || one->low <= other->high ? 1 : 0;
      }
    }
  }
  return agreement;
}

}  // namespace commlens
