#include "commlens/app/reproduce/contests.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/summary/breakdown.hpp"

namespace commlens::study {
namespace {

constexpr const char* k_equal = "equal to the closed form";
constexpr const char* k_departs = "not the closed form";
constexpr const char* k_besides = "besides it";

bool has_op(const ClosedForm& form, CommKind op) {
  // A receive is the other end of a send, which wire bytes count alone.
  return std::ranges::find(form.ops, op == CommKind::recv ? CommKind::send : op) != form.ops.end();
}

/// Wire bytes of messages as large as the form's, of its ops or of all.
Bytes wire_of(const std::vector<BreakdownRow>& rows, const ClosedForm& form, bool of_its_ops) {
  Bytes wire;
  for (const BreakdownRow& row : rows) {
    const bool counts = row.message >= form.least && (!of_its_ops || has_op(form, row.kind));
    wire += counts ? row.wire_per_rank : Bytes{};
  }
  return wire;
}

const char* part_of(const BreakdownRow& row, const ClosedForm& form, bool is_equal) {
  if (row.message < form.least || (is_equal && !has_op(form, row.kind))) {
    return k_besides;
  }
  return is_equal ? k_equal : k_departs;
}

Series framework_series(const Plan& plan, const Contender& contender) {
  Series series{contender.name, Evidence::exact,
                fmt::format("every call by the rules of {}: `{}`", plan.tables.provenance.framework,
                            contender.asked.command())};
  series.unmeasured = plan.unverified;
  return series;
}

}  // namespace

FormSheet::FormSheet()
    : sheet_({"panel", "model", "setting", "bar", "framework", "op", "axis", "rule", "part", "calls_per_rank",
              "message_bytes_per_rank", "wire_bytes_per_rank", "source"}) {}

void FormSheet::add_form(const FormContest& contest, const ClosedForm& form) {
  const std::string name = "closed form: " + form.name;
  sheet_.add({contest.panel, contest.model, contest.setting,
              fmt::format("{}, closed: {}", contest.setting, form.name), name, name_of(form.ops.front()), "",
              form.formula, "closed form", form.calls, form.message, form.wire, form.source},
             {name, Evidence::exact, fmt::format("{}, {}", form.formula, form.source)});
}

void FormSheet::add_contender(const FormContest& contest, const Contender& contender, const Plan& plan) {
  const Trace trace = plan.trace_of({plan.steady_iteration()});
  const ClosedForm& form = contest.forms.at(contender.form);
  std::vector<BreakdownRow> rows = breakdown(trace, {.rank = Rank{0}, .by_tag = false});
  std::erase_if(rows, [&](const BreakdownRow& row) {
    return row.no_traffic() || std::ranges::find(contender.axes, row.axis) == contender.axes.end();
  });
  const bool is_equal = wire_of(rows, form, true) == form.wire;
  const Series series = framework_series(plan, contender);
  for (const BreakdownRow& row : rows) {
    const Rule& rule = trace.rule(row.rule);
    sheet_.add({contest.panel, contest.model, contest.setting,
                fmt::format("{}, {}", contest.setting, contender.name), contender.name, name_of(row.kind),
                row.axis.name(), rule.name, part_of(row, form, is_equal), row.calls, row.total_message,
                row.wire_per_rank, rule.source},
               series);
  }
  if (!is_equal) {
    notes_.push_back(fmt::format("{}, {}, {}: {} where the closed form ({}) has {}. {}", contest.model,
                                 contest.setting, contender.name, to_text(wire_of(rows, form, false)),
                                 form.name, to_text(form.wire), contender.why));
  }
}

void FormSheet::add(Study& study, const FormContest& contest) {
  for (const ClosedForm& form : contest.forms) {
    add_form(contest, form);
  }
  for (const Contender& contender : contest.contenders) {
    const Result<Plan> plan = study.plan(contender.asked);
    if (plan) {
      add_contender(contest, contender, *plan);
    } else {
      notes_.push_back(fmt::format("{}, {}, {}: {}.", contest.model, contest.setting, contender.name,
                                   plan.error().message));
    }
  }
}

Item item_of(const FormSheet& forms, const char* id, std::string caption,
             const std::vector<std::pair<const char*, const char*>>& titles) {
  const Drawing drawing{
      FigureKind::bars,
      bar_options("bar", "rule", true, {"wire_bytes_per_rank", "message_bytes_per_rank", "calls_per_rank"}),
      {"panel", "model", "setting", "framework", "series", "evidence", "provenance"}};
  Item item{whole_of(forms.sheet(), std::move(caption), drawing), {}};
  for (const auto& [panel, title] : titles) {
    if (const Table rows = rows_with(forms.sheet().table(), "panel", panel); !rows.empty()) {
      item.panels.push_back(panel_of(rows, fmt::format("{}-{}", id, panel), title, "", drawing));
    }
  }
  item.whole.notes.insert(item.whole.notes.begin(), forms.notes().begin(), forms.notes().end());
  return item;
}

}  // namespace commlens::study
