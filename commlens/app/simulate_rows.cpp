#include "commlens/app/simulate_rows.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "commlens/app/json_result.hpp"
#include "commlens/app/machine_choice.hpp"
#include "commlens/base/csv.hpp"
#include "commlens/base/file.hpp"
#include "commlens/base/units.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_most_table_bytes = std::int64_t{256} << 20;

Result<std::vector<RunRow>> read_rows(const std::string& file) {
  return read_text_file(file, k_most_table_bytes).and_then([&](const std::string& content) {
    return parse_run_table(file, content);
  });
}

Result<std::set<std::string>> read_ids(const std::string& file) {
  return read_text_file(file, k_most_table_bytes).map([](const std::string& content) {
    std::set<std::string> ids;
    std::string id;
    for (const char letter : content + "\n") {
      if (letter != '\n' && letter != '\r' && letter != ' ' && letter != '\t') {
        id += letter;
      } else if (!id.empty()) {
        ids.insert(id);
        id.clear();
      }
    }
    return ids;
  });
}

FamilyError error_of(const std::string& family, bool is_fitted,
                     const std::vector<std::pair<double, std::string>>& sorted) {
  const auto at = [&](double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))].first;
  };
  return {family,
          is_fitted,
          static_cast<std::int64_t>(sorted.size()),
          at(0.5),
          at(0.9),
          sorted.back().first,
          sorted.back().second};
}

std::vector<FamilyError> errors_by_family(const RunCalibration& calibration, const std::vector<RunRow>& rows,
                                          const std::set<std::string>& fitted) {
  std::map<std::pair<bool, std::string>, std::vector<std::pair<double, std::string>>> errors;
  for (const RunRow& row : rows) {
    if (row.reason.empty() && row.run.seconds) {
      const double seconds = predicted_run(row.run, calibration).seconds;
      errors[{!fitted.contains(row.id), row.run.family}].emplace_back(
          std::abs(seconds / *row.run.seconds - 1), row.id);
    }
  }
  std::vector<FamilyError> result;
  for (auto& [key, members] : errors) {
    std::sort(members.begin(), members.end());
    result.push_back(error_of(key.second, !key.first, members));
  }
  return result;
}

Table error_table(const CalibratedRows& result) {
  Table table(columns({"rows_are", "machine", "points", "median_error_share", "p90_error_share",
                       "worst_error_share", Column{.key = "worst_at", .least = 10}}));
  for (const FamilyError& error : result.errors) {
    table.add({error.is_fitted ? "fitted" : "held out", error.family, error.rows, error.median, error.p90,
               error.worst, error.worst_at});
  }
  return table;
}

constexpr std::int64_t k_fewest_runs = 3;

/// Runs of families that have enough of them; the others are left out, with a warning.
Result<std::vector<TrainingRun>> of_large_families(std::vector<TrainingRun> runs, const Events& events) {
  std::map<std::string, std::int64_t> families;
  for (const TrainingRun& run : runs) {
    ++families[run.family];
  }
  std::vector<std::string> few;
  for (const auto& [family, count] : families) {
    if (count < k_fewest_runs) {
      few.push_back(fmt::format("{}: {} measured run{}, a fit needs {}", family, count, count == 1 ? "" : "s",
                                k_fewest_runs));
    }
  }
  std::erase_if(runs, [&](const TrainingRun& run) { return families.at(run.family) < k_fewest_runs; });
  if (runs.empty()) {
    return failure(few.front());
  }
  for (const std::string& family : few) {
    events.warn(family + "; left out");
  }
  return runs;
}

/// The runs that are fitted: those of `ids`, or all, that can be expressed and have a time. Fails on a time
/// that is no number above 0.
Result<std::vector<TrainingRun>> wanted_runs(const std::string& table, const std::vector<RunRow>& rows,
                                             const std::set<std::string>& ids, const Events& events) {
  std::set<std::string> missing = ids;
  std::map<std::string, std::int64_t> reasons;
  std::vector<TrainingRun> runs;
  for (const RunRow& row : rows) {
    missing.erase(row.id);
    if (!ids.empty() && !ids.contains(row.id)) {
      continue;
    }
    if (!row.time_text.empty()) {
      return failure(fmt::format("{}:{}: seconds_per_iteration is '{}'; it must be a number above 0", table,
                                 row.line, row.time_text));
    }
    if (!row.reason.empty() || !row.run.seconds) {
      ++reasons[row.reason.empty() ? "no time was measured" : row.reason];
    } else {
      runs.push_back(row.run);
    }
  }
  for (const auto& [reason, count] : reasons) {
    events.warn(fmt::format("{} rows are not fitted: {}", count, reason));
  }
  if (!missing.empty()) {
    return failure(fmt::format("--ids names '{}', which the table does not have", *missing.begin()));
  }
  return runs.empty() ? failure("no row with a measured time can be expressed")
                      : of_large_families(std::move(runs), events);
}

}  // namespace

Result<SimulatedRows> simulate_rows(const SimulateRowsRequest& request) {
  return run_calibration(request.calibration).and_then([&](const RunCalibration& calibration) {
    return read_rows(request.table).map([&](std::vector<RunRow> rows) {
      SimulatedRows result;
      for (const RunRow& row : rows) {
        result.predictions.push_back(row.reason.empty() ? predicted_run(row.run, calibration)
                                                        : RunPrediction());
      }
      result.rows = std::move(rows);
      return result;
    });
  });
}

std::string csv_of(const SimulatedRows& result) {
  std::string text = csv_line(std::vector<std::string>{"id", "seconds_per_iteration", "low", "high", "mfu",
                                                       "memory_bytes", "provenance", "reason", "mfu_low",
                                                       "mfu_high", "memory_low", "memory_high"});
  for (std::size_t index = 0; index < result.rows.size(); ++index) {
    const RunRow& row = result.rows[index];
    const RunPrediction& prediction = result.predictions[index];
    if (!row.reason.empty()) {
      text += csv_line(std::vector<std::string>{row.id, "", "", "", "", "", "", row.reason, "", "", "", ""});
      continue;
    }
    text += csv_line(std::vector<std::string>{
        row.id, fmt::format("{:.6g}", prediction.seconds), fmt::format("{:.6g}", prediction.low),
        fmt::format("{:.6g}", prediction.high), fmt::format("{:.4f}", prediction.mfu),
        fmt::format("{:.0f}", prediction.memory_bytes), prediction.provenance, "",
        fmt::format("{:.4f}", prediction.mfu_low), fmt::format("{:.4f}", prediction.mfu_high),
        fmt::format("{:.0f}", prediction.memory_low), fmt::format("{:.0f}", prediction.memory_high)});
  }
  return text;
}

namespace {

/// How close predictions of one kind are to what was measured.
struct Closeness {
  std::vector<double> errors;
  std::int64_t inside = 0;

  void add(const RunPrediction& prediction, double measured) {
    errors.push_back(std::abs(prediction.seconds / measured - 1));
    inside += measured >= prediction.low && measured <= prediction.high ? 1 : 0;
  }
  /// "; of 629 measured ones that are WHAT half are within 2.5 %, 92 % in their interval"; nothing of none.
  std::string text(std::string_view what) {
    if (errors.empty()) {
      return "";
    }
    std::sort(errors.begin(), errors.end());
    const auto count = static_cast<std::int64_t>(errors.size());
    return fmt::format(
        "; of {} measured ones that are {} half are within {:.1f} %, {:.0f} % in their interval",
        with_commas(count), what, 100 * errors[errors.size() / 2],
        100.0 * static_cast<double>(inside) / static_cast<double>(count));
  }
};

}  // namespace

std::string summary_of(const SimulatedRows& result) {
  Closeness calibrated;
  Closeness others;
  std::int64_t expressed = 0;
  for (std::size_t index = 0; index < result.rows.size(); ++index) {
    const RunRow& row = result.rows[index];
    const RunPrediction& prediction = result.predictions[index];
    expressed += row.reason.empty() ? 1 : 0;
    if (row.reason.empty() && row.run.seconds) {
      (prediction.provenance.starts_with("calibrated") ? calibrated : others)
          .add(prediction, *row.run.seconds);
    }
  }
  std::string text = fmt::format("{} of {} rows have a time", with_commas(expressed),
                                 with_commas(static_cast<std::int64_t>(result.rows.size())));
  return text + calibrated.text("calibrated (perhaps on these very rows)") +
         others.text("borrowed or uncalibrated") + "\n";
}

Result<CalibratedRows> calibrate_rows(const CalibrateRowsRequest& request) {
  const Result<std::set<std::string>> ids =
      request.ids.empty() ? Result<std::set<std::string>>(std::set<std::string>()) : read_ids(request.ids);
  if (!ids || (!request.ids.empty() && ids->empty())) {
    return failure(ids ? fmt::format("{}: names no row", request.ids) : ids.error().message);
  }
  return read_rows(request.table).and_then([&](const std::vector<RunRow>& rows) {
    return wanted_runs(request.table, rows, *ids, request.events)
        .map([&](const std::vector<TrainingRun>& runs) {
          const std::string source = request.source.empty()
                                         ? std::filesystem::path(request.table).filename().string()
                                         : request.source;
          CalibratedRows result{calibrated_runs(runs, source), {}};
          std::set<std::string> fitted;
          for (const TrainingRun& run : runs) {
            fitted.insert(run.id);
          }
          result.errors = errors_by_family(result.calibration, rows, fitted);
          return result;
        });
  });
}

std::string rendered(const CalibratedRows& result, Format format, const TextStyle& style) {
  const Table table = error_table(result);
  return in_format(
      format, [&] { return table.text_with_hidden(style); },
      [&] {
        return nlohmann::ordered_json({{"schema", "commlens.calibrate/1"}, {"rows", rows_json(table)}});
      },
      [&] { return table.csv(); });
}

}  // namespace commlens
