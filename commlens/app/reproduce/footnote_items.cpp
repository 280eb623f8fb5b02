// The paper's five footnotes.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "commlens/app/reproduce/items.hpp"
#include "commlens/machine/machines.hpp"

namespace commlens::study {
namespace {

constexpr const char* k_footnote_model = "1.3B";

std::string count_text(std::int64_t count) { return with_commas(count); }

/// All_reduces on groups of one rank, which send nothing.
Bytes lone_reductions(const Plan& plan) {
  Bytes sum;
  for (const OpTotal& total : steady_totals(plan)) {
    sum += total.op == CommKind::all_reduce && total.group_size == 1 ? total.message : Bytes{};
  }
  return sum;
}

/// Footnote 2.
void add_tensor_footnote(Sheet& sheet, Study& study) {
  if (const Result<Plan> tensor = study.plan(k_footnote_model, k_neox, {.dp = 1, .tp = 8})) {
    const std::optional<EquationValue> value = study.equation("5", k_footnote_model, {.tp = 8});
    const std::vector<OpTotal> totals = steady_totals(*tensor);
    std::int64_t gathered = 0;
    for (const OpTotal& total : totals) {
      gathered += total.op == CommKind::all_gather && total.axis == Axis::tp ? total.message.value : 0;
    }
    sheet.add({"2: tensor parallelism sends more than Eq. 5",
               "the backward pass of the unembedding is one all_reduce more; partitioned activations are "
               "gathered, one "
               "all_gather a layer; three all_reduces of the cross entropy; the reduction of gradients on "
               "one rank is logged",
               fmt::format("Eq. 5 {} elements, corrected {}; gathered activations:",
                           count_text(static_cast<std::int64_t>(value->value)),
                           count_text(static_cast<std::int64_t>(value->value_exact))),
               gathered},
              neox_series());
  }
}

}  // namespace

ItemResult footnotes(Study& study) {
  Sheet sheet({Column{"what", "footnote"}, Column{"why", "what it is"}, Column{"value", "computed"},
               Column{"message_bytes", "bytes"}});
  const Series rules = neox_series();
  const Result<Plan> stages = study.plan(k_footnote_model, k_neox, {.dp = 1, .pp = 2});
  const Result<Plan> sixteen = study.plan(k_footnote_model, k_neox, {.dp = 8, .pp = 2});
  if (stages && sixteen) {
    sheet.add({"1: large all_reduces under pure pipeline parallelism",
               "the pipeline engine reduces gradients over the data ranks even where there is one; with 16 "
               "devices and two "
               "stages there are eight, and the call is real traffic",
               fmt::format("on one data rank, logged and not sent; on eight: {} bytes sent by a rank",
                           count_text(total_of(steady_totals(*sixteen), CommKind::all_reduce).wire.value)),
               lone_reductions(*stages)},
              rules);
  }
  add_tensor_footnote(sheet, study);
  if (stages) {
    const std::int64_t activation =
        fp16_bytes(study.equation("4", k_footnote_model, {.pp = 2})->value / 2).value;
    const std::int64_t sent = total_of(steady_totals(*stages), CommKind::send).message.value;
    sheet.add({"3: sends larger by up to eight megabytes",
               "the attention mask, cast to fp16 and sent with every activation, never back with a gradient",
               "2 s^2 = 2 x 2048 x 2048", sent - activation},
              rules);
  }
  const Result<Plan> refused = study.plan("125M", k_neox, {.dp = 1, .tp = 8});
  sheet.add({"4: 125M does not run with tensor parallelism", "its 12 heads cannot be shared by eight ranks",
             refused ? "runs" : refused.error().message, Cell()},
            rules);
  if (const Result<Machine> frontier = find_machine(k_machine)) {
    const auto peak =
        std::ranges::find(frontier->processor.peaks, DType::fp64, &std::pair<DType, Quantity>::first);
    const double ranks = frontier->nodes->value * frontier->ranks_per_node.value;
    sheet.add({"5: Frontier leads the Top500 of May 2024",
               "a fact of that list, which nothing here can compute; Rpeak counts vector units, the "
               "description matrix units",
               peak == frontier->processor.peaks.end()
                   ? ""
                   : fmt::format("{:.0f} GCDs x {} TFLOP/s fp64 = {:.2f} EFLOP/s", ranks, peak->second.value,
                                 ranks * peak->second.value / 1e6),
               Cell()},
              {"machine file", Evidence::exact, "the description of Frontier"});
  }
  return Item{whole_of(sheet, "The paper's footnotes, each with what causes it.",
                       {FigureKind::table, {}, {"series", "evidence", "provenance"}}),
              {}};
}

}  // namespace commlens::study
