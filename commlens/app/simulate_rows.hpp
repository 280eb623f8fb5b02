#pragma once
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/base/result.hpp"
#include "commlens/base/table.hpp"
#include "commlens/simulate/run_calibration.hpp"
#include "commlens/simulate/run_table.hpp"

namespace commlens {

/// A table of training runs whose iteration times are wanted.
struct SimulateRowsRequest {
  std::string table;
  std::string calibration;  // of calibrate --rows; empty: the one that the program brings
};

/// The rows, in their order, and the prediction of each that can be expressed.
struct SimulatedRows {
  std::vector<RunRow> rows;
  std::vector<RunPrediction> predictions;  // one per row; without a time where the row has a reason
};

/// Fails on files that cannot be read, not on rows that cannot be expressed.
Result<SimulatedRows> simulate_rows(const SimulateRowsRequest& request);

/// id, seconds_per_iteration, low, high, mfu, memory_bytes, provenance, reason, then limits: mfu_low,
/// mfu_high, memory_low, memory_high; one line a row.
std::string csv_of(const SimulatedRows& result);

/// "683 of 1,234 rows have a time; …", with the errors where times were measured.
std::string summary_of(const SimulatedRows& result);

/// Measured runs to fit.
struct CalibrateRowsRequest {
  std::string table;
  std::string ids;     // a file of ids, one a line: the rows to fit; empty: all that have a time
  std::string source;  // of the times; empty: the file's name
  Events events;
};

/// How far a family's fit is from the runs that it was fitted to, or from the others of the table.
struct FamilyError {
  std::string family;
  bool is_fitted = true;
  std::int64_t rows = 0;
  double median = 0;
  double p90 = 0;
  double worst = 0;
  std::string worst_at;  // an id
};

struct CalibratedRows {
  RunCalibration calibration;
  std::vector<FamilyError> errors;
};

/// Fits every family of the rows. Warns of rows that cannot be expressed. Fails where no row has a time, and
/// on ids that the table does not have.
Result<CalibratedRows> calibrate_rows(const CalibrateRowsRequest& request);

/// Errors by family: a table; JSON as schema commlens.calibrate/1; CSV.
std::string rendered(const CalibratedRows& result, Format format, const TextStyle& style = {});

}  // namespace commlens
