// Figures 11 to 13: volumes of pipeline and tensor parallelism.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "commlens/app/reproduce/items.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/summary/breakdown.hpp"

namespace commlens::study {
namespace {

constexpr std::int64_t k_degrees[] = {2, 4, 8, 16};
constexpr std::int64_t k_split[] = {2, 4, 8};

/// One layout of model parallelism.
struct Split {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  Degrees degrees() const { return {.dp = 1, .tp = tp, .pp = pp}; }
  std::string text() const {
    return pp > 1 && tp > 1 ? fmt::format("p = {}, t = {}", pp, tp)
           : pp > 1         ? fmt::format("p = {}", pp)
                            : fmt::format("t = {}", tp);
  }
};

/// Wire bytes of all ranks in the steady iteration, of one op or of all.
Bytes wire_of_all(const Plan& plan, std::optional<CommKind> op) {
  std::vector<BreakdownRow> rows = breakdown(plan.trace_of({plan.steady_iteration()}), {.by_rule = false});
  if (op) {
    std::erase_if(rows, [&](const BreakdownRow& row) { return row.kind != *op; });
  }
  return aggregate_wire(rows);
}

Bytes logged_of_rank_0(const Plan& plan) {
  Bytes sum;
  for (const OpTotal& total : steady_totals(plan)) {
    sum += total.logged;
  }
  return sum;
}

const char* kind_title(bool is_pipeline) {
  return is_pipeline ? "(a) Pipeline parallelism" : "(b) Tensor parallelism";
}
std::string kind_panel(bool is_pipeline) { return is_pipeline ? "a" : "b"; }

Item two_panels(const Sheet& sheet, const std::string& id, const std::string& caption,
                const Drawing& drawing) {
  Item item{whole_of(sheet, caption, drawing), {}};
  for (const bool is_pipeline : {true, false}) {
    const std::string panel = kind_panel(is_pipeline);
    item.panels.push_back(panel_of(rows_with(sheet.table(), "panel", panel), id + "-" + panel,
                                   kind_title(is_pipeline), "", drawing));
  }
  return item;
}

/// What cannot be run, in the words of the rules: "125M, t = 8: 12 heads are not divisible by tp 8; …".
void note_refusal(std::vector<std::string>& notes, const std::string& model, const Split& split,
                  const Error& error) {
  notes.push_back(fmt::format("{}, {}: {}.", model, split.text(), error.message));
}

void add_volume(Sheet& sheet, const std::string& panel, const std::string& model, const Split& split,
                const Plan& plan) {
  sheet.add({panel, model, split.text(), model + ", " + split.text(), plan.job.layout.ranks,
             wire_of_all(plan, std::nullopt), logged_of_rank_0(plan)},
            neox_series());
}

}  // namespace

ItemResult model_volumes(Study& study) {
  Sheet sheet(
      {"panel", "model", "setting", "bar", "rank_count", "wire_bytes_all_ranks", "logged_bytes_per_rank"});
  std::vector<std::string> refusals;
  for (const bool is_pipeline : {true, false}) {
    for (const PaperModel& model : k_models) {
      for (const std::int64_t degree : k_split) {
        const Split split = is_pipeline ? Split{1, degree} : Split{degree, 1};
        const Result<Plan> plan = study.plan(model.name, k_neox, split.degrees());
        if (plan) {
          add_volume(sheet, kind_panel(is_pipeline), model.name, split, *plan);
        } else {
          note_refusal(refusals, model.name, split, plan.error());
        }
      }
    }
  }
  Item item =
      two_panels(sheet, "fig-11",
                 "Total volume of an iteration of one replica under pipeline (a) and tensor (b) "
                 "parallelism: what all ranks send, and what the log of rank 0 adds up.",
                 {FigureKind::bars,
                  bar_options("model", "setting", false, {"wire_bytes_all_ranks", "logged_bytes_per_rank"}),
                  {"panel", "bar", "provenance"}});
  item.whole.notes.insert(item.whole.notes.end(), refusals.begin(), refusals.end());
  return item;
}

namespace {

/// "neox/t2p2" -> "t = 2, p = 2".
std::string split_text(std::string_view run) {
  std::string text;
  for (const char letter : run.substr(run.find('/') + 1)) {
    const bool is_degree = letter >= '0' && letter <= '9';
    text += is_degree ? fmt::format(" = {}", letter) : fmt::format("{}{}", text.empty() ? "" : ", ", letter);
  }
  return text;
}

}  // namespace

ItemResult model_breakdown(Study& study) {
  Sheet sheet({"panel", "model", "setting", "bar", "op", "axis", "calls_per_rank", "message_bytes_per_rank",
               "wire_bytes_per_rank", "logged_bytes_per_rank"});
  std::vector<std::string> refusals;
  const Split splits[] = {{1, 2}, {1, 4}, {1, 8}, {2, 1}, {4, 1}, {8, 1}, {2, 2}, {4, 2}, {2, 4}};
  for (const PaperModel& model : k_models) {
    for (const Split& split : splits) {
      const Result<Plan> plan = study.plan(model.name, k_neox, split.degrees());
      if (!plan) {
        note_refusal(refusals, model.name, split, plan.error());
        continue;
      }
      const std::string panel = split.tp == 1 ? "a" : split.pp == 1 ? "b" : "c";
      for (const OpTotal& total : steady_totals(*plan)) {
        sheet.add(
            {panel, model.name, split.text(), std::string(model.name) + ", " + split.text(),
             name_of(total.op), total.axis.name(), total.calls, total.message, total.wire, total.logged},
            neox_series());
      }
    }
  }
  for (const char* const name : {"neox/p2", "neox/t2", "neox/t2p2"}) {
    const GoldenRun& run = golden_run(name);
    for (const CommKind op :
         {CommKind::all_reduce, CommKind::all_gather, CommKind::broadcast, CommKind::send, CommKind::recv}) {
      if (const GoldenCalls calls = run.total(op, 1); calls.calls > 0) {
        sheet.add({"d", run.model, split_text(name), split_text(name), name_of(op), "", calls.calls,
                   calls.message, run.wire(op, 1), Cell()},
                  golden_series(run));
      }
    }
  }
  const Drawing drawing{
      FigureKind::bars,
      bar_options("bar", "op", true,
                  {"message_bytes_per_rank", "wire_bytes_per_rank", "logged_bytes_per_rank"}),
      {"panel", "model", "setting", "provenance"}};
  Item item =
      two_panels(sheet, "fig-12",
                 "Volume of rank 0 by operation under pipeline (a) and tensor (b) parallelism, and both "
                 "together. An all_reduce under pure pipeline parallelism is that of the gradients on a "
                 "group of one rank (footnote 1): it is logged and sends nothing. The all_gathers are "
                 "those of partitioned activations; tensor parallelism's own all_reduces are not in the "
                 "log, which DeepSpeed's logger does not see.",
                 drawing);
  item.panels.push_back(panel_of(rows_with(sheet.table(), "panel", "c"), "fig-12-c",
                                 "Pipeline and tensor parallelism together", "", drawing));
  item.panels.push_back(panel_of(rows_with(sheet.table(), "panel", "d"), "fig-12-d",
                                 "GPT-NeoX itself: a small model, four micro-batches, fp16", "", drawing));
  item.whole.notes.insert(item.whole.notes.end(), refusals.begin(), refusals.end());
  return item;
}

namespace {

void add_pipeline_theory(Sheet& sheet, Study& study, const char* model, std::int64_t stages) {
  const Split split{1, stages};
  const std::string bar = fmt::format("{}, {}", model, split.text());
  const auto add = [&](Bytes bytes, const Series& series) {
    sheet.add({"a", model, split.text(), bar, "all stages", bytes, bytes.value / 2}, series);
  };
  if (const std::optional<EquationValue> value = study.equation("4", model, split.degrees())) {
    add(fp16_bytes(value->value), printed_series("Eqs 4 and 5"));
    add(fp16_bytes(value->value_exact), exact_series("Eqs 4 and 5"));
  }
  if (const Result<Plan> plan = study.plan(model, k_neox, split.degrees())) {
    add(wire_of_all(*plan, CommKind::send), neox_series());
  }
}

void add_tensor_theory(Sheet& sheet, Study& study, const char* model, std::int64_t ranks) {
  const Split split{ranks, 1};
  const std::string bar = fmt::format("{}, {}", model, split.text());
  const auto add = [&](Bytes bytes, const Series& series) {
    sheet.add({"b", model, split.text(), bar, "one rank", bytes, bytes.value / 2}, series);
  };
  const Result<Plan> plan = study.plan(model, k_neox, split.degrees());
  if (!plan) {
    return;
  }
  if (const std::optional<EquationValue> value = study.equation("5", model, split.degrees())) {
    add(fp16_bytes(value->value), printed_series("Eqs 4 and 5"));
    add(fp16_bytes(value->value_exact), exact_series("Eqs 4 and 5"));
  }
  Bytes wire;
  for (const OpTotal& total : steady_totals(*plan)) {
    wire += total.op == CommKind::all_reduce && total.axis == Axis::tp ? total.wire : Bytes{};
  }
  add(wire, neox_series());
}

/// Messages and all_reduces of activations that were recorded, with the equation for the same job.
void add_recorded_theory(Sheet& sheet, Study& study) {
  for (const Recording& recording : study.recordings()) {
    const ParallelLayout& layout = recording.job.layout;
    const bool is_pipeline = layout.pp > 1;
    if (layout.dp > 1 || (layout.tp > 1) == is_pipeline || recording.name.starts_with("length")) {
      continue;
    }
    const Split split{layout.tp, layout.pp};
    Bytes wire;
    if (is_pipeline) {
      std::vector<BreakdownRow> rows =
          breakdown(recording.trace, {.iterations = {static_cast<Iteration>(recording.iterations - 1)}});
      std::erase_if(rows, [](const BreakdownRow& row) { return row.kind != CommKind::send; });
      wire = aggregate_wire(rows);
    } else {
      for (const OpTotal& total : last_totals(recording)) {
        wire += total.op == CommKind::all_reduce && total.axis == Axis::tp ? total.wire : Bytes{};
      }
    }
    const std::string bar = fmt::format("{}, {}", recording.job.model.name, split.text());
    const auto add = [&](Bytes bytes, const Series& series) {
      sheet.add(
          {is_pipeline ? "c" : "d", recording.job.model.name, split.text(), bar,
           is_pipeline ? "all stages" : "one rank", bytes, bytes.value / size_of(recording.job.train.dtype)},
          series);
    };
    for (const EquationValue& value : equations(recording.job)) {
      if (value.equation == (is_pipeline ? "4" : "5")) {
        const std::int64_t width = size_of(recording.job.train.dtype);
        add({std::llround(value.value) * width}, printed_series("Eqs 4 and 5"));
        add({std::llround(value.value_exact) * width}, exact_series("Eqs 4 and 5"));
      }
    }
    Series series = recorded_series(recording);
    series.name = "commlens, recorded";
    add(wire, series);
  }
}

}  // namespace

Sheet model_theory_sheet(Study& study) {
  Sheet sheet({"panel", "model", "setting", "bar", "scope", "wire_bytes", "elements"});
  for (const PaperModel& model : k_models) {
    for (const std::int64_t stages : k_degrees) {
      add_pipeline_theory(sheet, study, model.name, stages);
    }
  }
  for (const PaperModel& model : k_models) {
    for (const std::int64_t ranks : k_split) {
      add_tensor_theory(sheet, study, model.name, ranks);
    }
  }
  for (const char* const name : {"neox/p2", "neox/p4", "neox/t2"}) {
    const GoldenRun& run = golden_run(name);
    // Four micro-batches of [2, 64, 128] in fp16.
    constexpr Bytes activation{32768};
    const bool is_pipeline = run.name.at(5) == 'p';
    const CommKind op = is_pipeline ? CommKind::send : CommKind::all_reduce;
    const Bytes wire = wire_bytes(op, run.total(op, 1, activation).message, run.ranks);
    sheet.add({is_pipeline ? "e" : "f", run.model, is_pipeline ? fmt::format("p = {}", run.ranks) : "t = 2",
               run.name.substr(5), "rank 0, activations", wire, wire.value / 2},
              golden_series(run));
  }
  add_recorded_theory(sheet, study);
  return sheet;
}

ItemResult model_theory(Study& study) {
  const Sheet sheet = model_theory_sheet(study);
  const Drawing drawing{FigureKind::bars,
                        bar_options("bar", "series", false, {"wire_bytes"}),
                        {"panel", "model", "setting", "provenance"}};
  Item item =
      two_panels(sheet, "fig-13",
                 "Messages between stages (a, of all stages: what Eq. 4 counts) and all_reduces of "
                 "activations (b, of one rank: what Eq. 5 counts) of one iteration, one micro-batch of "
                 "four sequences of 2,048 tokens, against theory.",
                 drawing);
  for (const char* const panel : {"c", "d"}) {
    if (const Table rows = rows_with(sheet.table(), "panel", panel); !rows.empty()) {
      item.panels.push_back(panel_of(rows, std::string("fig-13-") + panel,
                                     panel == std::string("c") ? "Recorded here: messages between stages"
                                                               : "Recorded here: all_reduces of activations",
                                     "", drawing));
    }
  }
  return item;
}

}  // namespace commlens::study
