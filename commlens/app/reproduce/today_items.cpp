// What the same configuration sends by the frameworks of 2024 and by those of today, and by which rules.
#include <fmt/format.h>

#include "commlens/app/reproduce/items.hpp"
#include "commlens/summary/breakdown.hpp"

namespace commlens::study {
namespace {

constexpr const char* k_today_model = "1.3B";

/// A configuration and the frameworks that can run it.
struct Contest {
  const char* panel;
  const char* title;
  Degrees degrees;
  std::vector<const char*> frameworks;
  const char* why;
};

std::vector<Contest> contests() {
  const Degrees data{.dp = 16, .zero = 0};
  const Degrees sharded_optimizer{.dp = 16, .zero = 1};
  const Degrees sharded{.dp = 16, .zero = 3};
  return {
      {"a",
       "Data parallelism, 16 ranks",
       data,
       {"deepspeed@0.14.0", "deepspeed@0.19.8", "megatron@core_v0.7.0", "megatron@0.19.2", "torch-ddp"},
       "All of them all_reduce the gradients, 2 P (d-1)/d; they differ in how many buckets that takes."},
      {"b",
       "Optimizer states sharded (ZeRO-1), 16 ranks",
       sharded_optimizer,
       {"deepspeed@0.14.0", "deepspeed@0.19.8", "megatron@core_v0.7.0", "megatron@0.19.2"},
       "DeepSpeed all_reduces each bucket of gradients and gathers parameters, 3 P (d-1)/d, in 2024 and "
       "today; Megatron's "
       "distributed optimizer scatters the gradients, 2 P (d-1)/d, as Eq. 2 has it."},
      {"c",
       "All states sharded (ZeRO-3, FSDP), 16 ranks",
       sharded,
       {"deepspeed@0.14.0", "deepspeed@0.19.8", "torch-fsdp"},
       "DeepSpeed keeps parameters from forward to backward where they are used again soon, so that it "
       "gathers less than 2 P; "
       "fully_shard frees each layer after its forward pass and gathers it again."},
      {"d",
       "Tensor parallelism, 8 ranks",
       {.dp = 1, .tp = 8, .zero = 0},
       {"neox", "megatron@core_v0.7.0", "megatron@0.19.2"},
       "GPT-NeoX gathers the stored inputs of layers that it has partitioned, and reduces gradients on a "
       "group of one rank."},
      {"e",
       "Two pipeline stages",
       {.dp = 1, .pp = 2, .zero = 0},
       {"neox", "deepspeed@0.19.8", "megatron@core_v0.7.0", "megatron@0.19.2"},
       "GPT-NeoX, and DeepSpeed's engine as GPT-NeoX configures it, send the attention mask with every "
       "activation; Megatron's "
       "stages make their own. Reductions of gradients on one rank send nothing."},
  };
}

/// A job of a framework without ZeRO stages is asked for as it is.
Degrees degrees_for(const Contest& contest, std::string_view framework) {
  Degrees degrees = contest.degrees;
  degrees.zero = framework.starts_with("torch") ? -1 : degrees.zero;
  return degrees;
}

void add_framework(Sheet& sheet, const Contest& contest, const char* framework, const Plan& plan) {
  const Trace trace = plan.trace_of({plan.steady_iteration()});
  const std::string version = plan.tables.provenance.framework;
  Series series{version, Evidence::exact, fmt::format("every call by the rules of {}", version)};
  series.unmeasured = plan.unverified;
  for (const BreakdownRow& row : breakdown(trace, {.rank = Rank{0}, .by_tag = false})) {
    const Rule& rule = trace.rule(row.rule);
    sheet.add({contest.panel, contest.title, framework, name_of(row.kind), row.axis.name(), row.calls,
               row.total_message, row.wire_per_rank, rule.name, rule.source},
              series);
  }
}

}  // namespace

ItemResult frameworks_today(Study& study) {
  Sheet sheet({"panel", "setting", "framework", "op", "axis", "calls_per_rank", "message_bytes_per_rank",
               "wire_bytes_per_rank", "rule", "source"});
  std::vector<std::string> notes;
  for (const Contest& contest : contests()) {
    notes.push_back(fmt::format("{}: {}", contest.title, contest.why));
    for (const char* const framework : contest.frameworks) {
      const Result<Plan> plan = study.plan(k_today_model, framework, degrees_for(contest, framework));
      if (plan) {
        add_framework(sheet, contest, framework, *plan);
      } else {
        notes.push_back(fmt::format("{}, {}: {}.", contest.title, framework, plan.error().message));
      }
    }
  }
  const Drawing drawing{FigureKind::bars,
                        bar_options("framework", "op", true,
                                    {"wire_bytes_per_rank", "message_bytes_per_rank", "calls_per_rank"}),
                        {"panel", "setting", "evidence", "series", "provenance"}};
  Item item{
      whole_of(
          sheet,
          "What 1.3B sends in an iteration, of rank 0, by the frameworks of 2024 and by those of today; each "
          "call with the rule that it follows and the line of the framework that makes it.",
          drawing),
      {}};
  for (const Contest& contest : contests()) {
    item.panels.push_back(panel_of(rows_with(sheet.table(), "panel", contest.panel),
                                   fmt::format("today-{}", contest.panel), contest.title, "", drawing));
  }
  item.whole.notes.insert(item.whole.notes.begin(), notes.begin(), notes.end());
  return item;
}

}  // namespace commlens::study
