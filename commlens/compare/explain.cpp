#include "commlens/compare/explain.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "commlens/base/sums.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/compare/causes.hpp"
#include "commlens/compare/explain_volumes.hpp"
#include "commlens/compare/scope.hpp"

namespace commlens {
namespace {

/// Gathers contributions by cause, then by axis, op and rule.
class Groups {
 public:
  /// Adds the surplus or deficit of one rank, of `count` equal ones, due to `cause`; no cause: unexplained.
  void add(std::string_view cause, const VolumeKey& key, RankVolume more, std::int64_t count) {
    const auto split = [count](std::int64_t value, std::int64_t& a, std::int64_t& b) {
      std::int64_t& side = value < 0 ? a : b;
      side = saturating_sum(side, saturating_product(value < 0 ? -value : value, count));
    };
    ExplainedRow& row = row_of(cause, key);
    split(more.calls, row.calls_a, row.calls_b);
    split(more.message, row.message_a.value, row.message_b.value);
  }

  ExplainedRow& row_of(std::string_view cause, const VolumeKey& key) {
    ExplainedRow& row = rows_[std::string(cause)][key];
    row.axis = key.axis;
    row.kind = key.kind;
    row.rule = key.rule;
    row.source = key.source;
    return row;
  }

  Explanation take() {
    Explanation explanation;
    for (auto& [name, by_key] : rows_) {
      ExplainedGroup group{cause_named(name), {}};
      for (auto& [key, row] : by_key) {
        if (row.calls_a > 0 || row.calls_b > 0 || row.message_a.value > 0 || row.message_b.value > 0) {
          group.rows.push_back(std::move(row));
        }
      }
      const auto touched = [](const ExplainedRow& row) {
        return saturating_sum(row.message_a, row.message_b);
      };
      std::stable_sort(group.rows.begin(), group.rows.end(),
                       [&](const ExplainedRow& l, const ExplainedRow& r) { return touched(l) > touched(r); });
      if (group.rows.empty()) {
        continue;
      }
      if (name.empty()) {
        explanation.unexplained = std::move(group.rows);
        continue;
      }
      group.cause.source = sources_of(group.rows);
      explanation.explained.push_back(std::move(group));
    }
    std::stable_sort(explanation.explained.begin(), explanation.explained.end(),
                     [](const ExplainedGroup& l, const ExplainedGroup& r) { return l.moved() > r.moved(); });
    return explanation;
  }

 private:
  static std::string sources_of(const std::vector<ExplainedRow>& rows) {
    std::vector<std::string> sources;
    std::string text;
    for (const ExplainedRow& row : rows) {
      if (!row.source.empty() && std::find(sources.begin(), sources.end(), row.source) == sources.end()) {
        sources.push_back(row.source);
        text += (text.empty() ? "" : "; ") + row.source;
      }
    }
    return text;
  }

  std::map<std::string, std::map<VolumeKey, ExplainedRow>> rows_;
};

using KindVolumes = std::map<std::pair<Axis, CommKind>, RankVolume>;

void add_to(RankVolume& sum, const RankVolume& volume) {
  sum.calls = saturating_sum(sum.calls, volume.calls);
  sum.message = saturating_sum(sum.message, volume.message);
}

KindVolumes by_kind(const RankVolumes& volumes) {
  KindVolumes sums;
  for (const auto& [key, volume] : volumes) {
    add_to(sums[{key.axis, key.kind}], volume);
  }
  return sums;
}

/// Adds all changes from `before` to `after` under one cause.
void add_change(Groups& groups, const ExplainStep& step, const RankVolumes& before, const RankVolumes& after,
                std::int64_t count) {
  KindVolumes change = by_kind(after);
  for (const auto& [key, volume] : by_kind(before)) {
    change[key].calls -= volume.calls;
    change[key].message -= volume.message;
  }
  const std::string_view cause = step.by == ExplainStep::By::cause ? std::string_view(step.cause) : "";
  for (const auto& [key, volume] : change) {
    groups.add(cause, {key.first, key.second, "", step.source}, volume, count);
  }
}

/// Compares the calls of one term on one axis: the equations' and the framework's.
struct TermCalls {
  KindVolumes equations;
  KindVolumes framework;
  std::string_view cause;  // of another number of calls
  std::string_view less;   // of fewer bytes
  std::string_view less_source;
  std::string source;  // of the framework's rule
};

void add_term(Groups& groups, const TermCalls& term, std::int64_t count) {
  KindVolumes change = term.framework;
  for (const auto& [key, volume] : term.equations) {
    change[key].calls -= volume.calls;
    change[key].message -= volume.message;
  }
  for (const auto& [key, volume] : change) {
    std::string_view cause;
    std::string source = term.source;
    if (volume.message == 0) {
      cause = term.cause;
    } else if (volume.message < 0 || term.equations.find(key) == term.equations.end()) {
      cause = term.less;  // without one it is unexplained
      source = term.less_source;
    }
    groups.add(cause, {key.first, key.second, "", source}, volume, count);
  }
}

/// The cause of calls for a term of the equations on a group of one rank, which the equations do not count.
std::string_view cause_on_one_rank(Term term, Axis axis) {
  if (axis != Axis::self) {
    return "";
  }
  return term == Term::gradients    ? "one_rank_gradients"
         : term == Term::parameters ? "one_rank_parameters"
                                    : "";
}

/// From the equations' calls to a framework's, distinguished by rule.
void add_by_rules(Groups& groups, const RuleBook& book, const RankVolumes& before, const RankVolumes& after,
                  std::int64_t count) {
  std::map<std::pair<Axis, Term>, TermCalls> terms;
  for (const auto& [key, volume] : before) {
    const std::optional<RuleMeaning> meaning = book.meaning_of(key.rule);
    TermCalls& term = terms[{key.axis, meaning ? meaning->term : Term::none}];
    add_to(term.equations[{key.axis, key.kind}], volume);
  }
  for (const auto& [key, volume] : after) {
    const std::optional<RuleMeaning> meaning = book.meaning_of(key.rule);
    if (!meaning) {
      groups.add("", key, volume, count);
    } else if (meaning->term == Term::none) {
      groups.add(meaning->cause, key, volume, count);
    } else if (!cause_on_one_rank(meaning->term, key.axis).empty()) {
      groups.add(cause_on_one_rank(meaning->term, key.axis), key, volume, count);
    } else {
      TermCalls& term = terms[{key.axis, meaning->term}];
      add_to(term.framework[{key.axis, key.kind}], volume);
      term.cause = term.cause.empty() ? meaning->cause : term.cause;
      term.less_source = term.less.empty() ? meaning->less_source : term.less_source;
      term.less = term.less.empty() ? meaning->less : term.less;
      term.source = term.source.empty() ? key.source : term.source;
    }
  }
  for (const auto& [key, term] : terms) {
    add_term(groups, term, count);
  }
}

}  // namespace

std::string_view cause_of_rule(const RuleBook& book, std::string_view rule, Axis axis) {
  const std::optional<RuleMeaning> meaning = book.meaning_of(rule);
  if (!meaning) {
    return "";
  }
  if (const std::string_view cause = cause_on_one_rank(meaning->term, axis); !cause.empty()) {
    return cause;
  }
  const bool is_plain = meaning->cause == "separate_calls" || meaning->cause == "gradient_buckets";
  return meaning->term != Term::none && is_plain ? cause_of(meaning->term) : meaning->cause;
}

std::int64_t ExplainedGroup::calls() const {
  std::int64_t sum = 0;
  for (const ExplainedRow& row : rows) {
    sum = saturating_sum(sum, row.calls());
  }
  return sum;
}

Bytes ExplainedGroup::message() const {
  Bytes sum;
  for (const ExplainedRow& row : rows) {
    sum = saturating_sum(sum, row.message());
  }
  return sum;
}

Bytes ExplainedGroup::moved() const {
  Bytes sum;
  for (const ExplainedRow& row : rows) {
    sum = saturating_sum(sum, saturating_sum(row.message_a, row.message_b));
  }
  return sum;
}

Result<Explanation> explain_steps(const Trace& first, const std::vector<ExplainStep>& steps,
                                  const CompareOptions& options) {
  const Trace& last = steps.empty() ? first : steps.back().trace;
  const Result<Scope> scope = common_scope(first, last, options);
  if (!scope) {
    return tl::unexpected(scope.error());
  }
  std::vector<const Trace*> traces = {&first};
  for (const ExplainStep& step : steps) {
    traces.push_back(&step.trace);
  }
  const auto with_mesh = std::find_if(traces.begin(), traces.end(),
                                      [](const Trace* trace) { return trace->groups.mesh().has_value(); });
  const std::optional<Mesh> mesh = with_mesh == traces.end() ? std::nullopt : (*with_mesh)->groups.mesh();
  const std::vector<RankRange> ranges = common_ranges(*scope, traces);
  const Iteration iteration = scope->iterations.back();

  const RuleBook none;
  const RuleBook& book = options.rules == nullptr ? none : *options.rules;
  Groups groups;
  std::vector<RankVolumes> before = volumes_per_range(first, ranges, iteration, options, mesh);
  for (const ExplainStep& step : steps) {
    std::vector<RankVolumes> after = volumes_per_range(step.trace, ranges, iteration, options, mesh);
    for (std::size_t at = 0; at < ranges.size(); ++at) {
      if (step.by == ExplainStep::By::rules) {
        add_by_rules(groups, book, before[at], after[at], ranges[at].count());
      } else {
        add_change(groups, step, before[at], after[at], ranges[at].count());
      }
    }
    before = std::move(after);
  }
  Explanation explanation = groups.take();
  explanation.iteration = iteration;
  explanation.ranks = scope->ranks;
  if (steps.size() > 1 && steps.back().by == ExplainStep::By::nothing) {
    CompareOptions one = options;
    one.iterations = {iteration, iteration};
    const Result<Comparison> calls = compare(steps[steps.size() - 2].trace, last, one);
    if (!calls) {
      return tl::unexpected(calls.error());
    }
    explanation.unexplained_calls = calls->differences;
  }
  return explanation;
}

Explanation explain_calls(const Comparison& comparison) {
  Groups groups;
  std::vector<Difference> unexplained;
  for (const Difference& difference : comparison.differences) {
    const std::string_view cause = difference.cause;
    ExplainedRow& row = groups.row_of(
        cause, {difference.axis, difference.kind, difference.rule.name, difference.rule.source});
    if (difference.a) {
      row.calls_a = saturating_sum(row.calls_a, difference.calls);
      row.message_a =
          saturating_sum(row.message_a, saturating_product(message_bytes(*difference.a), difference.calls));
    }
    if (difference.b) {
      row.calls_b = saturating_sum(row.calls_b, difference.calls);
      row.message_b =
          saturating_sum(row.message_b, saturating_product(message_bytes(*difference.b), difference.calls));
    }
    if (cause.empty()) {
      unexplained.push_back(difference);
    }
  }
  Explanation explanation = groups.take();
  explanation.ranks = comparison.ranks;
  explanation.unexplained_calls = std::move(unexplained);
  return explanation;
}

Explanation explain_calls(const Comparison& to_closest, const Comparison& left) {
  Explanation explanation = explain_calls(to_closest);
  Explanation rest = explain_calls(left);
  for (ExplainedGroup& group : rest.explained) {
    std::move(group.rows.begin(), group.rows.end(), std::back_inserter(rest.unexplained));
  }
  std::move(rest.unexplained.begin(), rest.unexplained.end(), std::back_inserter(explanation.unexplained));
  explanation.unexplained_calls.insert(explanation.unexplained_calls.end(), left.differences.begin(),
                                       left.differences.end());
  return explanation;
}

Explanation exchanged(Explanation explanation) {
  const auto exchange = [](ExplainedRow& row) {
    std::swap(row.calls_a, row.calls_b);
    std::swap(row.message_a, row.message_b);
  };
  for (ExplainedGroup& group : explanation.explained) {
    std::for_each(group.rows.begin(), group.rows.end(), exchange);
  }
  std::for_each(explanation.unexplained.begin(), explanation.unexplained.end(), exchange);
  for (Difference& difference : explanation.unexplained_calls) {
    std::swap(difference.a, difference.b);
    if (difference.verdict == Verdict::missing || difference.verdict == Verdict::extra) {
      difference.verdict = difference.verdict == Verdict::missing ? Verdict::extra : Verdict::missing;
    }
  }
  return explanation;
}

}  // namespace commlens
