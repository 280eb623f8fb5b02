#include "commlens/app/reproduce/contests.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

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
    Departure departure{
        fmt::format("{}, {}", contest.model, contender.name), form.name, {}, {}, contender.why};
    for (const BreakdownRow& row : rows) {
      const std::string& name = trace.rule(row.rule).name;
      if (part_of(row, form, false) == std::string_view(k_departs) &&
          std::ranges::find(departure.rules, name) == departure.rules.end()) {
        departure.rules.push_back(name);
      }
    }
    add_departure(std::move(departure),
                  fmt::format("{} with {} where it has {}", to_text(wire_of(rows, form, false)),
                              contest.setting, to_text(form.wire)));
  }
}

void FormSheet::add_departure(Departure departure, std::string setting) {
  auto found = std::ranges::find_if(departures_, [&](const Departure& other) {
    return other.who == departure.who && other.form == departure.form && other.rules == departure.rules;
  });
  if (found == departures_.end()) {
    departures_.push_back(std::move(departure));
    found = std::prev(departures_.end());
  }
  found->settings.push_back(std::move(setting));
}

std::vector<std::string> FormSheet::notes() const {
  std::vector<std::string> notes;
  for (const Departure& departure : departures_) {
    notes.push_back(fmt::format("{}: not the closed form ({}), {}, by the rules {}. {}", departure.who,
                                departure.form, fmt::join(departure.settings, ", "),
                                fmt::join(departure.rules, " and "), departure.why));
  }
  notes.insert(notes.end(), refusals_.begin(), refusals_.end());
  return notes;
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
      refusals_.push_back(fmt::format("{}, {}, {}: {}.", contest.model, contest.setting, contender.name,
                                      plan.error().message));
    }
  }
}

Item item_of(const FormSheet& forms, const char* id, std::string caption,
             const std::vector<std::pair<const char*, const char*>>& titles) {
  const Drawing drawing{
      FigureKind::bars,
      bar_options("bar", "part", true, {"wire_bytes_per_rank", "message_bytes_per_rank", "calls_per_rank"}),
      {"panel", "model", "setting", "framework", "series", "evidence", "provenance"}};
  Item item{whole_of(forms.sheet(), std::move(caption), drawing), {}};
  for (const auto& [panel, title] : titles) {
    if (const Table rows = rows_with(forms.sheet().table(), "panel", panel); !rows.empty()) {
      item.panels.push_back(panel_of(rows, fmt::format("{}-{}", id, panel), title, "", drawing));
    }
  }
  const std::vector<std::string> notes = forms.notes();
  item.whole.notes.insert(item.whole.notes.begin(), notes.begin(), notes.end());
  return item;
}

}  // namespace commlens::study
