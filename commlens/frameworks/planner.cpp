#include "commlens/frameworks/planner.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/frameworks/not_covered.hpp"
#include "commlens/model/version.hpp"

namespace commlens {
namespace {

/// Removes programs at the end that repeat the one before them.
void trim_repeats(std::vector<Program>& iterations) {
  while (iterations.size() > 1 && iterations.back() == iterations[iterations.size() - 2]) {
    iterations.pop_back();
  }
}

bool same_steps(const RankClass& a, const RankClass& b) {
  return a.init == b.init && a.iterations == b.iterations && a.others == b.others;
}

/// Neighbouring stages that do the same become one class (groups are relative to the rank, so the ops are
/// equal).
std::vector<RankClass> merged(std::vector<RankClass> classes) {
  std::vector<RankClass> result;
  for (RankClass& next : classes) {
    // A stage has two classes at most: the one that the next stage continues is one of the last two.
    const std::size_t first = result.size() < 2 ? 0 : result.size() - 2;
    const auto same = std::find_if(
        result.begin() + static_cast<std::ptrdiff_t>(first), result.end(), [&](const RankClass& earlier) {
          return merged_range(earlier.ranks, next.ranks) && same_steps(earlier, next);
        });
    if (same != result.end()) {
      same->ranks = *merged_range(same->ranks, next.ranks);
    } else {
      result.push_back(std::move(next));
    }
  }
  return result;
}

std::vector<std::int64_t> stages_to_write(const Mesh& mesh, std::optional<Rank> only) {
  if (only) {
    return {mesh.position(*only, Axis::pp)};
  }
  std::vector<std::int64_t> stages(static_cast<std::size_t>(mesh.size(Axis::pp)));
  std::iota(stages.begin(), stages.end(), 0);
  return stages;
}

/// The ranks of a class at positions `first` to `last` along an axis, with another initialisation.
struct PlanPositions {
  Axis axis;
  std::int64_t first;
  std::int64_t last;
};
void add_part(const RankClass& whole, const PlanPositions& positions, const Program& init, Plan& plan) {
  const Mesh& mesh = *plan.tables.groups.mesh();
  for (const RankRange& ranks :
       intersection(whole.ranks, mesh.range(positions.axis, positions.first, positions.last))) {
    RankClass part = whole;
    part.init = init;
    part.ranks = ranks;
    plan.classes.push_back(std::move(part));
  }
}

/// The classes of one stage's ranks: one, or more where the first ranks of the tensor groups, or of rows of
/// data ranks, begin otherwise.
void add_classes(std::int64_t stage, StagePrograms programs, Plan& plan) {
  const Mesh& mesh = *plan.tables.groups.mesh();
  RankClass all;
  all.stage = stage;
  all.ranks = mesh.range(Axis::pp, stage, stage);
  all.init = std::move(programs.init);
  all.iterations = std::move(programs.iterations);
  all.others = std::move(programs.others);
  trim_repeats(all.iterations);
  const bool has_data_rows = programs.init_of_other_data_ranks.has_value();
  if (!programs.init_of_other_tensor_ranks && !has_data_rows) {
    plan.classes.push_back(std::move(all));
    return;
  }
  const Axis axis = has_data_rows ? Axis::dp : Axis::tp;
  const Program others = has_data_rows ? std::move(*programs.init_of_other_data_ranks)
                                       : std::move(*programs.init_of_other_tensor_ranks);
  const std::int64_t row = has_data_rows ? programs.data_row : mesh.size(Axis::tp);
  for (std::int64_t first = 0; first < mesh.size(axis); first += row) {
    add_part(all, {axis, first, first}, all.init, plan);
    if (row > 1) {
      add_part(all, {axis, first + 1, first + row - 1}, others, plan);
    }
  }
}

/// Refuses an axis that no rule has calls along, and an order of ranks that the framework does not have:
/// nothing would be sent along the one, and the wrong ranks would be in the groups of the other.
Result<void> check_axes(const Job& job, const FrameworkRules& rules) {
  for (const MeshAxis& more : job.layout.more_axes) {
    if (std::find(rules.more_axes.begin(), rules.more_axes.end(), more.axis) == rules.more_axes.end()) {
      return failure(fmt::format("the {} rules know no axis {}", rules.name, name_of(more.axis)));
    }
  }
  const bool is_default = job.layout.order == ParallelLayout::k_default_order;
  return is_default || rules.takes_any_order
             ? Result<void>{}
             : not_covered(fmt::format("the {} rules number ranks in the order {} alone, not {}", rules.name,
                                       ParallelLayout::k_default_order, job.layout.order));
}

/// The known version whose rules the job takes, and why it is that one.
struct UsedVersion {
  std::string_view name;
  VersionMatch match = VersionMatch::recorded;
};

UsedVersion used_version(const Job& job, const FrameworkRules& rules) {
  if (rules.versions.empty()) {
    return {};
  }
  const VersionChoice choice = choose_version(rules.versions, rules.default_version, job.framework_version);
  return {rules.versions[choice.index].name, choice.match};
}

/// Names the known version that is used instead of an unknown one; empty if the source of that one was read.
std::string_view relation_to_others(VersionMatch match) {
  switch (match) {
    case VersionMatch::nearest_older:
      return "the nearest older version known";
    case VersionMatch::oldest:
      return "the oldest version known";
    case VersionMatch::not_comparable:
      return "the default version";
    case VersionMatch::recorded:
    case VersionMatch::in_range:
      break;
  }
  return "";
}

/// Why nothing of this job is verified: its version, its settings.
std::vector<std::string> unverified(const Job& job, const FrameworkRules& rules, const UsedVersion& used) {
  std::vector<std::string> reasons = rules.unverified(job);
  if (used.match != VersionMatch::recorded) {
    const std::string_view relation = relation_to_others(used.match);
    reasons.push_back(fmt::format("version {} was never recorded, the rules are those of {}{}{}",
                                  shown_text(job.framework_version), used.name, relation.empty() ? "" : ", ",
                                  relation));
  }
  reasons.insert(reasons.end(), job.unmodelled.begin(), job.unmodelled.end());
  if (job.model.vocab_is_assumed) {
    reasons.push_back(fmt::format("the vocabulary, which the configuration leaves open: {} is assumed",
                                  job.model.raw_vocab));
  }
  return reasons;
}

/// The warning about a version that was not recorded.
std::string version_warning(const Job& job, const FrameworkRules& rules, const UsedVersion& used) {
  const std::string_view relation = relation_to_others(used.match);
  const bool is_known = used.match == VersionMatch::in_range;
  return fmt::format("framework_version {} {}; the rules of {} {}{}{}{} are used, unverified",
                     shown_text(job.framework_version), is_known ? "was never recorded" : "is unknown",
                     job.framework, used.name, rules.base, relation.empty() ? "" : ", ",
                     relation.empty() ? "" : fmt::format("{},", relation));
}

void describe(Plan& plan, const FrameworkRules& rules) {
  const Job& job = plan.job;
  const UsedVersion used = used_version(job, rules);
  plan.unverified = unverified(job, rules, used);
  if (used.match != VersionMatch::recorded) {
    plan.job.warnings.push_back(version_warning(job, rules, used));
  }
  Provenance& provenance = plan.tables.provenance;
  provenance.source = Source::predicted;
  provenance.producer = "commlens";
  provenance.description = job.model.name;
  provenance.framework = fmt::format("{} {}{}", job.framework, used.name, rules.base);
  provenance.verified = plan.unverified.empty();
}

}  // namespace

Result<Plan> make_plan(const Job& job, std::optional<Rank> only) {
  return make_plan(job, rules_of(job), only);
}

Result<Plan> make_plan(const Job& job, const FrameworkRules& rules, std::optional<Rank> only) {
  if (const Result<void> known = check_axes(job, rules); !known) {
    return tl::unexpected(known.error());
  }
  if (!job.model.is_whole() && !rules.takes_partial_models) {
    return not_covered(
        fmt::format("the {} rules have no frozen, unused or fp32 parts of a model and no buffers; "
                    "remove frozen, unused, fp32_patterns and buffers of the model",
                    rules.name));
  }
  if (const std::string_view part = job.model.newer_part(); !part.empty() && !rules.takes_newer_models) {
    return not_covered(
        fmt::format("the {} rules have no {}, which {} has", rules.name, part, job.model.name));
  }
  if (const Result<void> supported = rules.check(job); !supported) {
    return tl::unexpected(supported.error());
  }
  const Mesh mesh = job.layout.mesh();
  if (only && (only->value < 0 || only->value >= mesh.ranks())) {
    return failure(fmt::format("there is no rank {} in a job of {} ranks", only->value, mesh.ranks()));
  }
  Plan plan{.job = job, .tables = Trace(mesh)};
  plan.job.train.attention = attention_of(job);
  const std::vector<std::int64_t> stages = stages_to_write(mesh, only);
  Result<std::vector<StagePrograms>> programs = rules.write(plan.job, stages, plan);
  if (!programs) {
    return tl::unexpected(programs.error());
  }
  for (std::size_t i = 0; i < programs->size(); ++i) {
    add_classes(stages[i], std::move((*programs)[i]), plan);
  }
  plan.classes = merged(std::move(plan.classes));
  if (only) {
    std::erase_if(plan.classes, [&](const RankClass& some) { return !some.ranks.contains(*only); });
  }
  describe(plan, rules);
  return plan;
}

}  // namespace commlens
