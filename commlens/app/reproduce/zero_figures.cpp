// Figures 7, 8 and 10: volumes of DDP and ZeRO.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "commlens/app/reproduce/items.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens::study {
namespace {

constexpr int k_schemes[] = {0, 1, 2, 3};
constexpr int k_zero_schemes[] = {1, 2, 3};
/// How many iterations follow initialisation in Figures 7 and 8. The paper does not say how many it logged.
constexpr std::int64_t k_logged_iterations = 10;

const std::vector<ColumnUse>& breakdown_columns() {
  static const std::vector<ColumnUse> columns = {"panel",
                                                 "model",
                                                 "setting",
                                                 "rank_count",
                                                 "bar",
                                                 "op",
                                                 "calls_per_rank",
                                                 "message_bytes_per_rank",
                                                 "wire_bytes_per_rank",
                                                 "logged_bytes_per_rank",
                                                 Column{"part_share", "share"}};
  return columns;
}

/// Where the rows of a bar stand.
struct Bar {
  std::string panel;
  std::string model;
  int zero = 0;
  std::int64_t ranks = 0;
};

/// The scheme, and the series where a panel has several of a scheme.
std::string bar_text(const Bar& bar, const Series& series) {
  return series.evidence == Evidence::exact ? fmt::format("{}, {}", scheme_text(bar.zero), series.name)
                                            : scheme_text(bar.zero);
}

void add_bar(Sheet& sheet, const Bar& bar, const std::vector<OpTotal>& totals, const Series& series) {
  Bytes wire;
  for (const CommKind op :
       {CommKind::broadcast, CommKind::all_reduce, CommKind::all_gather, CommKind::reduce_scatter}) {
    wire += total_of(totals, op).wire;
  }
  for (const CommKind op :
       {CommKind::broadcast, CommKind::all_reduce, CommKind::all_gather, CommKind::reduce_scatter}) {
    const OpTotal total = total_of(totals, op);
    if (total.calls == 0) {
      continue;
    }
    sheet.add(
        {bar.panel, bar.model, scheme_text(bar.zero), bar.ranks, bar_text(bar, series), name_of(op),
         total.calls, total.message, total.wire, total.logged,
         static_cast<double>(total.wire.value) / static_cast<double>(std::max<std::int64_t>(wire.value, 1))},
        series);
  }
}

/// A run of a framework in the same terms; its logger's count is not known.
std::vector<OpTotal> golden_totals(const GoldenRun& run, std::int64_t iterations) {
  std::vector<OpTotal> totals;
  for (const CommKind op :
       {CommKind::broadcast, CommKind::all_reduce, CommKind::all_gather, CommKind::reduce_scatter}) {
    OpTotal sum{op, Axis::unknown, run.ranks, 0, {}, {}, {}};
    for (std::int64_t iteration = -1; iteration < iterations; ++iteration) {
      const GoldenCalls calls = run.total(op, iteration);
      sum.calls += calls.calls;
      sum.message += calls.message;
      sum.wire += run.wire(op, iteration);
    }
    totals.push_back(sum);
  }
  return totals;
}

Sheet breakdown_sheet(Study& study) {
  Sheet sheet(breakdown_columns());
  for (const PaperModel& model : k_models) {
    for (const int zero : k_zero_schemes) {
      const Bar bar{model.panel, model.name, zero, model.devices};
      const Degrees degrees{.dp = model.devices, .zero = zero};
      if (const Result<Plan> plan = study.plan(model.name, k_equations, degrees)) {
        add_bar(sheet, bar, totals_of(*plan, 0, k_logged_iterations - 1), printed_series("Eqs 2 and 3"));
      }
      if (const Result<Plan> plan = study.plan(model.name, k_deepspeed, degrees)) {
        add_bar(sheet, bar, totals_of(*plan, -1, k_logged_iterations - 1), deepspeed_series());
      }
    }
  }
  for (const int zero : {1, 3}) {
    const GoldenRun& run =
        golden_run(zero == 1 ? "deepspeed/z1_N19_w4_fp32" : "deepspeed/z3_N19_w4_fp32_default");
    add_bar(sheet, {"e", run.model, zero, run.ranks}, golden_totals(run, 3), golden_series(run));
  }
  for (const Recording& recording : study.recordings()) {
    if (recording.job.layout.dp == 8) {
      const bool is_large = recording.name.starts_with("125M");
      add_bar(sheet, {is_large ? "g" : "f", recording.job.model.name, recording.job.train.zero_stage, 8},
              totals_of(recording.trace, -1, recording.iterations - 1), recorded_series(recording));
    }
  }
  return sheet;
}

const char* panel_title(const std::string& panel) {
  return panel == "a"   ? "(a) 19M on 8 ranks"
         : panel == "b" ? "(b) 125M on 8 ranks"
         : panel == "c" ? "(c) 1.3B on 8 ranks"
         : panel == "d" ? "(d) 13B on 16 ranks"
         : panel == "e" ? "DeepSpeed 0.14.0 itself: 19M on 4 ranks, fp32, 3 iterations"
         : panel == "f" ? "Recorded here: 19M, or 19M made narrow, on 8 ranks"
                        : "Recorded here: 125M on 8 ranks";
}

/// Says which trainings of data parallelism this machine could not make.
void note_not_trained(Item& item, const Study& study) {
  for (const std::string& reason : study.not_trained()) {
    if (reason.starts_with("zero-") || reason.starts_with("125M-")) {
      item.whole.notes.push_back(fmt::format("Not recorded here: {}.", reason));
    }
  }
}

Item breakdown_item(Study& study, const std::string& id, const std::string& caption,
                    const std::vector<std::string>& measures) {
  const Sheet sheet = breakdown_sheet(study);
  const Drawing drawing{FigureKind::bars,
                        bar_options("bar", "op", true, measures),
                        {"panel", "model", "setting", "rank_count", "series", "provenance"}};
  Item item{whole_of(sheet, caption, drawing), {}};
  item.whole.notes.push_back(fmt::format(
      "DeepSpeed's bars are initialisation and {} iterations, the equations' {} iterations: the paper does "
      "not say how many were logged, and the share of the broadcast is a matter of that alone, not of the "
      "model's size.",
      k_logged_iterations, k_logged_iterations));
  note_not_trained(item, study);
  for (const std::string& panel : values_of(sheet.table(), "panel")) {
    item.panels.push_back(panel_of(rows_with(sheet.table(), "panel", panel), fmt::format("{}-{}", id, panel),
                                   panel_title(panel), "", drawing));
  }
  return item;
}

void add_theory(Sheet& sheet, const PaperModel& model, int zero, std::int64_t devices, Study& study) {
  const Degrees degrees{.dp = devices, .zero = zero};
  const std::string equation = zero == 3 ? "Eq. 3" : "Eq. 2";
  const std::string panel = devices == model.devices ? model.panel : "";
  const auto add = [&](std::int64_t calls, Bytes message, Bytes wire, double elements, const Series& series) {
    sheet.add({panel, model.name, scheme_text(zero), devices, calls > 0 ? Cell(calls) : Cell(),
               message.value > 0 ? Cell(message) : Cell(), wire, std::llround(elements)},
              series);
  };
  if (const std::optional<EquationValue> value = study.equation(equation.substr(4), model.name, degrees)) {
    add(0, {}, fp16_bytes(value->value), value->value, printed_series("Eqs 2 and 3"));
    add(0, {}, fp16_bytes(value->value_exact), value->value_exact,
        {"Eqs 2 and 3, true P", Evidence::exact,
         "the paper's equation with the true number of parameters, fp16"});
  }
  const auto add_plan = [&](const Plan& plan, std::int64_t iteration, const Series& series) {
    std::int64_t calls = 0;
    Bytes message;
    Bytes wire;
    for (const OpTotal& total : totals_of(plan, iteration, iteration)) {
      calls += total.calls;
      message += total.message;
      wire += total.wire;
    }
    add(calls, message, wire, static_cast<double>(wire.value) / 2, series);
  };
  if (const Result<Plan> plan = study.plan(model.name, k_deepspeed, degrees)) {
    Series first = deepspeed_series();
    first.name += ", first iteration";
    add_plan(*plan, plan->steady_iteration(), deepspeed_series());
    if (zero == 3) {
      add_plan(*plan, 0, first);
    }
  }
}

}  // namespace

ItemResult zero_shares(Study& study) {
  return breakdown_item(study, "fig-7",
                        "What part of the wire bytes of a rank each operation has under ZeRO-1, 2 and 3.",
                        {"part_share"});
}

ItemResult zero_volumes(Study& study) {
  return breakdown_item(
      study, "fig-8",
      "Bytes of each operation under ZeRO-1, 2 and 3, of one rank: message bytes as the framework asks for "
      "them, wire bytes that the rank has to send, and what DeepSpeed's logger counts (of a gather the "
      "shard).",
      {"message_bytes_per_rank", "wire_bytes_per_rank", "logged_bytes_per_rank"});
}

namespace {

void add_golden_theory(Sheet& sheet) {
  for (const char* const name :
       {"deepspeed/z0_N19_w4_fp32", "deepspeed/z1_N19_w4_fp32", "deepspeed/z3_N19_w4_fp32_default"}) {
    const GoldenRun& run = golden_run(name);
    const int zero = std::string_view(name).at(11) - '0';
    GoldenCalls all;
    Bytes wire;
    for (const OpTotal& total : golden_totals(run, 3)) {
      const GoldenCalls one = run.total(total.op, 2);
      all.calls += one.calls;
      all.message += one.message;
      wire += run.wire(total.op, 2);
    }
    sheet.add({"e", run.model, scheme_text(zero), run.ranks, all.calls, all.message, wire,
               wire.value / size_of(DType::fp32)},
              golden_series(run));
  }
}

void add_recorded_theory_of(Sheet& sheet, const Recording& recording) {
  const std::int64_t width = size_of(recording.job.train.dtype);
  const int zero = recording.job.train.zero_stage;
  const auto ranks = static_cast<double>(recording.job.layout.dp);
  const std::string panel = recording.name.starts_with("125M") ? "g" : "f";
  Bytes message;
  Bytes wire;
  std::int64_t calls = 0;
  for (const OpTotal& total : last_totals(recording)) {
    calls += total.calls;
    message += total.message;
    wire += total.wire;
  }
  Series series = recorded_series(recording);
  series.name = "commlens, recorded";
  sheet.add({panel, recording.job.model.name, scheme_text(zero), recording.job.layout.dp, calls, message,
             wire, wire.value / width},
            series);
  const double theory = (zero == 3 ? 3.0 : 2.0) * (ranks - 1) / ranks *
                        static_cast<double>(parameter_count(recording.job.model).value);
  sheet.add({panel, recording.job.model.name, scheme_text(zero), recording.job.layout.dp, Cell(), Cell(),
             std::llround(theory) * width, std::llround(theory)},
            {"Eqs 2 and 3, true P", Evidence::exact,
             "the paper's equation with the true number of parameters, in the element type of the job"});
}

}  // namespace

Sheet zero_theory_sheet(Study& study) {
  Sheet sheet({"panel", "model", "setting", "rank_count", "calls_per_rank", "message_bytes_per_rank",
               "wire_bytes_per_rank", "elements_per_rank"});
  for (const PaperModel& model : k_models) {
    for (const std::int64_t devices : {std::int64_t{8}, std::int64_t{16}}) {
      for (const int zero : k_schemes) {
        add_theory(sheet, model, zero, devices, study);
      }
    }
  }
  add_golden_theory(sheet);
  for (const Recording& recording : study.recordings()) {
    if (recording.job.layout.dp == 8) {
      add_recorded_theory_of(sheet, recording);
    }
  }
  return sheet;
}

ItemResult zero_theory(Study& study) {
  const Sheet sheet = zero_theory_sheet(study);
  const Drawing drawing{
      FigureKind::bars,
      bar_options("setting", "series", false, {"wire_bytes_per_rank", "message_bytes_per_rank"}),
      {"panel", "model", "rank_count", "provenance"}};
  Item item{
      whole_of(sheet,
               "Volume of one iteration and rank against Eqs 2 and 3. Wire bytes are what the equations "
               "count. Message bytes are what a log adds up: of ZeRO-1 and 2 they are 2 P whether "
               "gradients are scattered or all_reduced, so that a log agrees with Eq. 2 although "
               "DeepSpeed sends 3 P (d-1)/d.",
               drawing),
      {}};
  for (const std::string& panel : values_of(sheet.table(), "panel")) {
    if (!panel.empty()) {
      item.panels.push_back(panel_of(rows_with(sheet.table(), "panel", panel),
                                     fmt::format("fig-10-{}", panel), panel_title(panel), "", drawing));
    }
  }
  note_not_trained(item, study);
  return item;
}

}  // namespace commlens::study
