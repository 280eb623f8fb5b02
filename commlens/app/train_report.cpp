#include "commlens/app/train_report.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/app/job_text.hpp"
#include "commlens/app/train_recipe.hpp"
#include "commlens/base/check.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/report/comparison_report.hpp"
#include "commlens/report/summary_tables.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/summary/statistics.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;
using engine::IterationReport;

/// Ops of an iteration, the one with most message bytes first.
std::vector<CommKind> ops_of(const Plan& plan) {
  std::vector<CommKind> ops;
  for (const SummaryRow& row : summary_rows(plan.trace_of({0}))) {
    if (std::find(ops.begin(), ops.end(), row.kind) == ops.end()) {
      ops.push_back(row.kind);
    }
  }
  return ops;
}

std::string head_text(const TrainRun& run) {
  const Job& job = run.plan.job;
  return fmt::format(
      "{}, vocabulary {}\n{}\n{}, {}, {} thread{} a rank; {} attention; data: {}; seed {}\n{}\n",
      parameters_text(job.model), with_commas(job.model.vocab), layout_text(job), run.transport,
      run.options.device, run.options.threads, run.options.threads == 1 ? "" : "s",
      name_of(attention_of(job)), run.data, run.options.seed, recipe_text(run.options));
}

Json optimizer_json(const engine::TrainOptions& options) {
  const LearningRateSchedule& schedule = options.schedule;
  return {{"name", "adamw"},
          {"beta1", options.beta1},
          {"beta2", options.beta2},
          {"epsilon", options.epsilon},
          {"weight_decay", options.weight_decay},
          {"learning_rate", schedule.peak},
          {"min_learning_rate", schedule.minimum},
          {"decay", name_of(schedule.style)},
          {"decay_iterations", schedule.iterations},
          {"warmup_iterations", schedule.warmup}};
}

std::string ring_text(const TrainRun& run, const Trace& trace) {
  const auto overwritten = trace.provenance.skipped.find(std::string(k_skipped_overwritten));
  return overwritten == trace.provenance.skipped.end()
             ? ""
             : fmt::format(", of each rank the last {} calls; {} overwritten",
                           with_commas(run.options.ring_records), with_commas(overwritten->second));
}

std::string files_text(const TrainRun& run, const TrainEnd& end, std::int64_t iterations_done) {
  std::string cost;
  if (const auto& recorder = end.trace.provenance.recorder; recorder && recorder->cost_per_call.count() > 0) {
    cost = fmt::format(" ({} ns a call to record)", recorder->cost_per_call.count());
  }
  std::string text = fmt::format("trace: {}{}{}\n", run.trace().string(), cost, ring_text(run, end.trace));
  if (run.options.save) {
    text += fmt::format("checkpoint: {}, {} iterations\n", run.options.save->string(), iterations_done);
  }
  return text;
}

/// The mean of the iterations after the cold one; std::nullopt if there are none.
std::optional<IterationReport> warm_mean(const std::vector<IterationReport>& rows) {
  if (rows.size() < 2) {
    return std::nullopt;
  }
  return mean_of({rows.begin() + 1, rows.end()});
}

std::string annotated(const std::string& line, std::string_view note, const TextStyle& style) {
  const bool fits = style.width == 0 || line.size() + 2 + note.size() <= style.width;
  return fits ? fmt::format("{}  {}", line, note) : line;
}

std::string scale_text(double scale) {
  constexpr double exact = 9e15;  // integers up to here
  return scale >= 1 && scale < exact ? with_commas(std::llround(scale)) : fmt::format("{:g}", scale);
}

/// A suffix of a line.
std::string note_of(const IterationReport& report, bool is_cold) {
  const std::string skipped =
      report.skipped ? fmt::format("skipped: overflow at loss scale {}", scale_text(report.loss_scale)) : "";
  return is_cold && report.skipped ? "cold, " + skipped : is_cold ? "cold" : skipped;
}

}  // namespace

const std::filesystem::path& TrainRun::trace() const {
  COMMLENS_CHECK(options.trace.has_value(), "the verb records every training");
  return *options.trace;
}

TrainReport::TrainReport(TrainRun run, Format format, const TextStyle& style)
    : run_(std::move(run)),
      format_(format),
      style_(style),
      table_(run_.plan.job, ops_of(run_.plan), style_) {}

std::string TrainReport::begin() const {
  if (format_ == Format::csv) {
    return iterations_table({}, run_.plan.job, 0).csv_keys();
  }
  return format_ == Format::json
             ? ""
             : wrapped(head_text(run_) +
                           "TFLOP/s: of one rank; in comm: the part of the time that rank 0 is "
                           "blocked in communication\n",
                       style_) +
                   "\n" + in_colour(table_.title_line(), Colour::bold, style_) + "\n";
}

std::string TrainReport::add(const IterationReport& report) {
  const bool is_cold = rows_.empty();
  rows_.push_back(report);
  if (format_ == Format::csv) {
    return iterations_table({report}, run_.plan.job, first()).csv_rows();
  }
  if (format_ == Format::json) {
    return "";
  }
  const std::string line = table_.line(report);
  const std::string note = note_of(report, is_cold);
  return (note.empty() ? line : annotated(line, note, style_)) + "\n";
}

std::string TrainReport::end(const TrainEnd& end) const {
  return format_ == Format::table ? end_text(end) : format_ == Format::json ? end_json(end) : "";
}

/// The peak memory of the fullest rank next to the prediction, and of the emptiest rank; they differ with
/// pipelines and uneven shards.
std::string TrainReport::memory_text(const std::vector<Bytes>& peaks) const {
  if (peaks.empty()) {
    return "";
  }
  const auto [least, most] = std::minmax_element(peaks.begin(), peaks.end());
  const auto rank = [&](auto of) { return of - peaks.begin(); };
  const std::string others =
      *least == *most ? "every rank"
                      : fmt::format("rank {}, least {} on rank {}", rank(most), to_text(*least), rank(least));
  const bool has_copies = run_.plan.job.train.dtype == DType::fp16;  // peaks are known on CPUs alone
  return fmt::format("memory: at most {} of tensors on {}; predicted {}{}\n", to_text(*most), others,
                     to_text(memory_per_rank(run_.plan.job).total()),
                     has_copies ? ", without the fp32 copies by which a CPU computes in fp16" : "");
}

std::string TrainReport::end_text(const TrainEnd& end) const {
  const TextStyle& style = style_;
  std::string text;
  if (const auto mean = warm_mean(rows_)) {
    const std::string note = fmt::format("of {} warm", rows_.size() - 1);
    text += in_colour(annotated(table_.line(*mean, true), note, style), Colour::bold, style) + "\n";
  }
  text += Table::hidden_text(table_.hidden(), style);
  const std::vector<SummaryRow> rows = summary_rows(end.trace);
  if (!rows.empty()) {
    const std::string extent = ring_text(run_, end.trace).empty()
                                   ? fmt::format("{} iteration{}", rows_.size(), rows_.size() == 1 ? "" : "s")
                                   : "of the calls that are in the trace";
    text += fmt::format("\nper op and group, all ranks together, {}\n{}", extent,
                        volumes_text({end.trace, rows}, style));
  }
  text += "\n";
  if (end.stopped && !rows_.empty()) {
    text += fmt::format("stopped by request after iteration {}\n", rows_.back().iteration);
  }
  text += memory_text(end.peak_memory);
  text += files_text(run_, end, first() + done());
  if (!end.check && end.dropped == 0) {
    return text + "prediction: not compared, the trace has no whole iteration (--ring)\n";
  }
  if (!end.check) {
    return text + fmt::format("prediction: not compared, {} calls are not in the trace (the disk is full)\n",
                              with_commas(end.dropped));
  }
  if (!end.check->all_equal() && end.check->comparison) {
    text +=
        "\nprediction (A) against recording (B)\n" + comparison_text(*end.check->comparison, false, style);
  }
  const Colour colour = end.check->all_equal() ? Colour::green : Colour::red;
  return text + in_colour(verdict_line(*end.check), colour, style) + "\n";
}

std::string TrainReport::end_json(const TrainEnd& end) const {
  const Job& job = run_.plan.job;
  Json mean;
  if (const auto warm = warm_mean(rows_)) {
    mean = rows_json(iterations_table({*warm}, job, first())).front();
    for (const char* const key :
         {"iteration", "cold", "loss", "gradient_norm", "learning_rate", "loss_scale", "skipped"}) {
      mean.erase(key);
    }
  }
  const auto& recorder = end.trace.provenance.recorder;
  const std::vector<SummaryRow> rows = summary_rows(end.trace);
  Json peaks = Json::array();
  for (const Bytes peak : end.peak_memory) {
    peaks.push_back(peak.value);
  }
  Json json = {{"schema", "commlens.train/2"},
               {"model", model_json(job.model)},
               {"layout", layout_json(job)},
               {"framework", job.framework},
               {"transport", run_.transport},
               {"device", run_.options.device},
               {"threads_per_rank", run_.options.threads},
               {"attention", name_of(attention_of(job))},
               {"data", run_.data},
               {"seed", run_.options.seed},
               {"optimizer", optimizer_json(run_.options)},
               {"iterations", rows_json(iterations_table(rows_, job, first()))},
               {"totals",
                {{"iteration_count", rows_.size()},
                 {"warm_iterations", rows_.empty() ? 0 : rows_.size() - 1},
                 {"mean_of_warm", std::move(mean)}}},
               {"ops", rows_json(summary_table({end.trace, rows, end.trace.ranks()}))},
               {"memory",
                {{"peak_bytes_per_rank", std::move(peaks)},
                 {"predicted_bytes_per_rank", memory_per_rank(job).total().value}}},
               {"stopped", end.stopped},
               {"trace", run_.trace().string()},
               {"recording_ns_per_call", recorder ? Json(recorder->cost_per_call.count()) : Json()},
               {"dropped_calls_whole_trace", end.dropped},
               {"skipped_records_whole_trace", end.trace.provenance.skipped},
               {"checkpoint", run_.options.save ? Json(run_.options.save->string()) : Json()},
               {"prediction", Json()}};
  if (end.check) {
    json["prediction"] = {{"calls", end.check->calls}, {"equal", end.check->equal}};
    if (!end.check->all_equal() && end.check->comparison) {
      json["comparison"] = comparison_json(*end.check->comparison, false);
    }
  }
  return json.dump(1) + "\n";
}

}  // namespace commlens
