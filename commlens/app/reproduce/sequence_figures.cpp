// Figures 14 and 15: the length of sequences.
#include <fmt/format.h>

#include "commlens/app/reproduce/items.hpp"

namespace commlens::study {
namespace {

constexpr std::int64_t k_sequences[] = {512, 1024, 2048, 4096};
constexpr const char* k_sequence_model = "1.3B";
constexpr std::int64_t k_sequence_ranks = 16;

/// A scheme of the two figures.
struct SequenceScheme {
  std::string name;
  Degrees degrees;
  const char* framework;
  Series series;
};

SequenceScheme data_scheme(int zero) {
  return {scheme_text(zero), {.dp = k_sequence_ranks, .zero = zero}, k_deepspeed, deepspeed_series()};
}

SequenceScheme model_scheme(std::int64_t tp, std::int64_t pp) {
  const std::string name = tp > 1 && pp > 1 ? "t = 2, p = 2" : tp > 1 ? "t = 2" : "p = 2";
  return {name, {.dp = k_sequence_ranks / tp / pp, .tp = tp, .pp = pp}, k_neox, neox_series()};
}

void add_gathered(Sheet& sheet, Study& study, const SequenceScheme& scheme) {
  for (const std::int64_t sequence : k_sequences) {
    Degrees degrees = scheme.degrees;
    degrees.sequence = sequence;
    const Result<Plan> plan = study.plan(k_sequence_model, scheme.framework, degrees);
    if (!plan) {
      continue;
    }
    // One row of each axis: gathers of parameters run along dp, those of activations along tp.
    Bytes all;
    for (const OpTotal& total : steady_totals(*plan)) {
      if (total.op == CommKind::all_gather && total.group_size > 1) {
        all += total.message;
        sheet.add({"", "all_gather", total.axis.name(), sequence, scheme.name, total.calls, total.message,
                   total.logged, Cell()},
                  scheme.series);
      }
    }
    sheet.add({"a", "all_gather", "all", sequence, scheme.name, Cell(), all, Cell(), Cell()}, scheme.series);
  }
}

void add_throughput(Sheet& sheet, Study& study, const SequenceScheme& scheme, const std::string& panel) {
  for (const std::int64_t sequence : k_sequences) {
    Degrees degrees = scheme.degrees;
    degrees.sequence = sequence;
    const Result<SimulatedJob>& job = study.simulation(k_sequence_model, scheme.framework, degrees);
    if (!job) {
      continue;
    }
    const Result<Plan> plan = study.plan(k_sequence_model, scheme.framework, degrees);
    const double flops = plan ? plan->flops_per_rank(plan->steady_iteration()).value : 0;
    const Estimate& seconds = job->simulation.seconds;
    Series series = simulated_series(*job);
    sheet.add({panel, "throughput", "", sequence, scheme.name, Cell(), Cell(), Cell(), flops / seconds.value},
              series);
  }
}

/// Trainings of this machine over the lengths.
void add_recorded_throughput(Sheet& sheet, Study& study, const std::string& panel, bool is_data) {
  for (const Recording& recording : study.recordings()) {
    const ParallelLayout& layout = recording.job.layout;
    if (!recording.name.starts_with("length") || (layout.dp > 1) != is_data) {
      continue;
    }
    const std::string name = is_data         ? scheme_text(recording.job.train.zero_stage)
                             : layout.tp > 1 ? "t = 2"
                                             : "p = 2";
    sheet.add({panel, "throughput", "", recording.job.model.sequence, name, Cell(), Cell(), Cell(),
               recording.flops_per_s},
              recorded_series(recording));
  }
}

const std::vector<ColumnUse>& sequence_columns() {
  static const std::vector<ColumnUse> columns = {"panel",
                                                 "op",
                                                 "axis",
                                                 "sequence",
                                                 "setting",
                                                 "calls_per_rank",
                                                 "message_bytes_per_rank",
                                                 "logged_bytes_per_rank",
                                                 "flops_per_s_per_rank"};
  return columns;
}

Drawing lines(const char* measure) {
  return {FigureKind::lines,
          {{"x", std::string("sequence")},
           {"series", std::string("setting")},
           {"y", std::string(measure)},
           {"toggles", std::vector<std::string>{measure}}},
          {"panel", "provenance"}};
}

void add_panel(Item& item, const Sheet& sheet, const std::string& id, const std::string& panel,
               const std::string& title, const char* measure) {
  if (const Table rows = rows_with(sheet.table(), "panel", panel); !rows.empty()) {
    Table shown = rows;
    const std::vector<const char*> unused =
        measure == std::string("flops_per_s_per_rank")
            ? std::vector<const char*>{"op", "axis", "calls_per_rank", "message_bytes_per_rank",
                                       "logged_bytes_per_rank"}
            : std::vector<const char*>{"flops_per_s_per_rank", "calls_per_rank", "logged_bytes_per_rank"};
    for (const char* const key : unused) {
      shown.remove({key});
    }
    item.panels.push_back(panel_of(shown, id + "-" + panel, title, "", lines(measure)));
  }
}

}  // namespace

ItemResult sequence_gathers(Study& study) {
  Sheet sheet(sequence_columns());
  for (const int zero : {0, 1, 2, 3}) {
    add_gathered(sheet, study, data_scheme(zero));
  }
  for (const SequenceScheme& scheme : {model_scheme(2, 1), model_scheme(1, 2), model_scheme(2, 2)}) {
    add_gathered(sheet, study, scheme);
  }
  for (const int zero : {0, 1, 2, 3}) {
    add_throughput(sheet, study, data_scheme(zero), "b");
  }
  add_recorded_throughput(sheet, study, "c", true);
  Item item{
      whole_of(sheet,
               "1.3B on 16 ranks, sequences of 512 to 4,096 tokens: what a rank gathers in an iteration "
               "(a), and floating-point operations per second of a rank with data parallelism (b).",
               lines("message_bytes_per_rank")),
      {}};
  add_panel(item, sheet, "fig-14", "a", "(a) all_gather volume, 1.3B on 16 ranks", "message_bytes_per_rank");
  add_panel(item, sheet, "fig-14", "b", "(b) Throughput of a GCD, 1.3B on 16 of Frontier, simulated",
            "flops_per_s_per_rank");
  add_panel(item, sheet, "fig-14", "c", "Recorded here: throughput of a rank, a model like 19M on two",
            "flops_per_s_per_rank");
  item.whole.notes.emplace_back(
      "Data parallelism gathers parameters alone, whatever the sequences. With tensor ranks the stored "
      "inputs of layers are "
      "gathered too, which grow with the sequences: the volume is constant only without partitioned "
      "activations. A learned "
      "position table, which Eq. 1 counts as sh, would make all of them grow; these models have rotary "
      "positions.");
  return item;
}

ItemResult sequence_messages(Study& study) {
  Sheet sheet({"panel", "op", "axis", "sequence", "setting", "calls_per_rank", "message_bytes_per_rank",
               "logged_bytes_per_rank", "flops_per_s_per_rank"});
  for (const SequenceScheme& scheme : {model_scheme(1, 2), model_scheme(2, 2)}) {
    for (const std::int64_t sequence : k_sequences) {
      Degrees degrees = scheme.degrees;
      degrees.sequence = sequence;
      if (const Result<Plan> plan = study.plan(k_sequence_model, scheme.framework, degrees)) {
        for (const CommKind op : {CommKind::recv, CommKind::send}) {
          const OpTotal total = total_of(steady_totals(*plan), op);
          sheet.add({op == CommKind::recv ? "a" : "b", name_of(op), "pp", sequence, scheme.name, total.calls,
                     total.message, total.logged, Cell()},
                    scheme.series);
        }
      }
    }
  }
  for (const SequenceScheme& scheme : {model_scheme(2, 1), model_scheme(1, 2)}) {
    add_throughput(sheet, study, scheme, "c");
  }
  add_recorded_throughput(sheet, study, "d", false);
  Item item{
      whole_of(sheet,
               "1.3B with two pipeline stages or two tensor ranks, sequences of 512 to 4,096 tokens: what "
               "rank 0 receives (a) and sends (b) in an iteration, and floating-point operations per second "
               "of a rank (c). Pure tensor parallelism has no messages.",
               lines("message_bytes_per_rank")),
      {}};
  add_panel(item, sheet, "fig-15", "a", "(a) Received by rank 0", "message_bytes_per_rank");
  add_panel(item, sheet, "fig-15", "b", "(b) Sent by rank 0", "message_bytes_per_rank");
  add_panel(item, sheet, "fig-15", "c", "(c) Throughput of a GCD, 1.3B on 16 of Frontier, simulated",
            "flops_per_s_per_rank");
  add_panel(item, sheet, "fig-15", "d", "Recorded here: throughput of a rank, a model like 19M on two",
            "flops_per_s_per_rank");
  item.whole.notes.emplace_back(
      "Rank 0 is the first stage: it receives gradients, b s h values, and sends activations with the "
      "attention mask, s^2 "
      "values more. So what it receives doubles exactly, and what it sends grows by 2.118, 2.222 and 2.400.");
  return item;
}

}  // namespace commlens::study
