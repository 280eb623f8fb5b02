#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/embedded_file.hpp"
#include "commlens/base/result.hpp"
#include "commlens/simulate/training_run.hpp"

namespace commlens {

/// The files of data/training: devices and frameworks that tables name, and what was fitted.
std::span<const EmbeddedFile> built_in_training();

/// A row of a table of training runs: the run, or why its iteration time cannot be expressed.
struct RunRow {
  std::string id;
  int line = 0;
  TrainingRun run;
  std::string reason;     // empty: `run` holds
  std::string time_text;  // of a measured time that is no number above 0; empty: none is so
};

/// A table of training runs, one a line, with the columns of docs/time-model.md#tables-of-training-runs: an
/// id, the model, the devices, the layout, and a measured time where there is one. Fails on a table without
/// rows or without a column that no row can do without, and on two rows of one id.
Result<std::vector<RunRow>> parse_run_table(const std::string& file, std::string_view content);

}  // namespace commlens
