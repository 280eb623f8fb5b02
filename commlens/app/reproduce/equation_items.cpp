// Equations 1 to 5: as printed, corrected, recorded.
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "commlens/app/reproduce/items.hpp"
#include "commlens/model/parameters.hpp"
#include "commlens/summary/breakdown.hpp"

namespace commlens::study {
namespace {

/// An equation in words that are not the paper's.
struct EquationText {
  const char* subject;
  const char* printed;
  const char* corrected;
  const char* unit;
  const char* scope;
};
constexpr EquationText k_equations_text[] = {
    {"Parameters of the model, P", "2Vh + sh + L(12h^2 + 8h) + 2h",
     "2Vh + L(12h^2 + 13h) + 2h, V padded to a multiple of 128 t", "parameters", "the model"},
    {"What a rank sends under DDP, ZeRO-1 and ZeRO-2", "2 P (d-1)/d",
     "2 P (d-1)/d; ZeRO-2 reduces M times; DeepSpeed 0.14: 3 P (d-1)/d for ZeRO-1 and 2", "elements",
     "one rank, one iteration"},
    {"What a rank sends under ZeRO-3", "3 P (d-1)/d",
     "3 P (d-1)/d for each micro-batch, at most: what stays gathered is not gathered again", "elements",
     "one rank, one iteration"},
    {"What pipeline stages send each other", "2 b s h (p-1)",
     "2 M b s h (p v - 1), and M s^2 (p-1) for the attention mask in GPT-NeoX", "elements",
     "all stages of one replica, one iteration"},
    {"What a tensor-parallel rank sends", "(12L + 2) b s h (t-1)/t",
     "(12L + 4) M b s h (t-1)/t, and 3 all_reduces of b s fp32 values", "elements",
     "one rank, one iteration"}};

Drawing plain_table() {
  return {FigureKind::table, {}, {"panel", "bar", "calls_per_rank", "message_bytes_per_rank", "provenance"}};
}

std::string caption_of(int number) {
  const EquationText& text = k_equations_text[number - 1];
  return fmt::format("{}. Printed: {}. Corrected: {}. Unit: {}; scope: {}. Letters are those of Table I{}.",
                     text.subject, text.printed, text.corrected, text.unit, text.scope,
                     number == 1
                         ? ""
                         : "; bytes are elements times two, those of fp16, where a series says no other "
                           "element type");
}

/// Gradients that a training reduces: its parameters.
Bytes reduced_gradients(const Recording& recording) {
  Bytes sum;
  for (const BreakdownRow& row :
       breakdown(recording.trace,
                 {.iterations = {static_cast<Iteration>(recording.iterations - 1)}, .rank = Rank{0}})) {
    sum += row.phase == Phase::backward ? row.total_message : Bytes{};
  }
  return sum;
}

/// A figure of the rows of a sheet that are of one equation.
ItemResult rows_item(const Sheet& sheet, int number, const char* column,
                     const std::vector<std::string>& values) {
  Table chosen(sheet.table().columns());
  for (const std::string& value : values) {
    const Table found = rows_with(sheet.table(), column, value);
    for (const std::vector<Cell>& row : found.rows()) {
      chosen.add(row);
    }
  }
  Item item{whole_of(sheet, caption_of(number), plain_table()), {}};
  item.whole.columns = shown_columns(chosen, plain_table().hidden);
  const std::vector<std::string> series = values_of(chosen, "series");
  item.whole.notes = sheet.notes(&series);
  return item;
}

}  // namespace

ItemResult equation_1(Study& study) {
  Sheet sheet({"model", "elements", "ratio_to_true"});
  for (const char* const model : {"19M", "125M", "1.3B", "13B", "20B"}) {
    const std::optional<EquationValue> value = study.equation("1", model, {});
    if (!value) {
      continue;
    }
    sheet.add({model, std::llround(value->value), value->value / value->value_exact},
              {"Eq. 1 as printed", Evidence::exact, "the paper's equation"});
    sheet.add({model, std::llround(value->value_exact), 1.0},
              {"Eq. 1 corrected", Evidence::exact, "every tensor of the model counted"});
  }
  const GoldenRun& run = golden_run("deepspeed/z1_N19_w4_fp32");
  const std::int64_t broadcast = run.total(CommKind::broadcast, -1).message.value / size_of(DType::fp32);
  const double exact = study.equation("1", "19M", {})->value_exact;
  sheet.add({"19M", broadcast, static_cast<double>(broadcast) / exact}, golden_series(run));
  for (const char* const name : {"zero-0", "125M-zero-0"}) {
    if (const Recording* const recording = study.recording(name)) {
      const std::int64_t reduced = reduced_gradients(*recording).value / size_of(recording->job.train.dtype);
      const double count = static_cast<double>(parameter_count(recording->job.model).value);
      sheet.add({recording->title, reduced, static_cast<double>(reduced) / count},
                recorded_series(*recording));
    }
  }
  Item item{whole_of(sheet, caption_of(1), plain_table()), {}};
  item.whole.notes.emplace_back(
      "19M and 1.3B are counts without embeddings, or nearly: the models that send are of 70,426,624 and "
      "1,414,647,808 parameters. A layer has 4h of two norms and 9h of biases, 13h and not 8h; the models "
      "have "
      "rotary positions, and so no sh.");
  return item;
}

ItemResult equation_2(Study& study) {
  return rows_item(zero_theory_sheet(study), 2, "setting", {"DDP", "ZeRO-1", "ZeRO-2"});
}
ItemResult equation_3(Study& study) { return rows_item(zero_theory_sheet(study), 3, "setting", {"ZeRO-3"}); }
ItemResult equation_4(Study& study) {
  return rows_item(model_theory_sheet(study), 4, "panel", {"a", "e", "c"});
}
ItemResult equation_5(Study& study) {
  return rows_item(model_theory_sheet(study), 5, "panel", {"b", "f", "d"});
}

}  // namespace commlens::study
