#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/dtype.hpp"
#include "commlens/formats/io/benchmark_trace.hpp"

namespace commlens::formats::nccl_tests {

/// One placement of a row: "out-of-place" or "in-place".
struct NcclTestsTime {
  double microseconds = 0;
  bool is_checked = false;  // there is a number of wrong elements beside it, not "N/A"
};

/// One row of a table of nccl-tests or rccl-tests.
struct NcclTestsRow {
  std::int64_t bytes = 0;  // the larger buffer
  std::int64_t count = 0;  // elements, as the collective's API counts them
  DType dtype = DType::uint8;
  std::string redop;  // "sum"; "none" or empty for collectives that do not reduce
  std::string root;   // "-1" or empty without a root
  std::optional<NcclTestsTime> out_of_place;
  std::optional<NcclTestsTime> in_place;
};

/// The columns that a header line names.
struct NcclTestsColumns {
  std::string prefix;  // what a launcher puts before each line
  bool has_redop = false;
  bool has_root = false;
  std::size_t per_placement = 0;  // 4, or 8 with per-iteration figures
  bool has_timestamp = false;
  bool is_cpu_time = false;
};

/// "#       size         count      type   redop    root     time   algbw …", of any age.
std::optional<NcclTestsColumns> nccl_tests_columns(std::string_view line);

/// Whether a line starts like a row: two integers and an element type.
bool starts_nccl_tests_row(std::string_view line, const NcclTestsColumns& columns);

/// "        8     2   float   sum   -1   1.5   0.01   0.01   0   2.5   0.00   0.00   0": a row; std::nullopt
/// if the line is none or is torn.
std::optional<NcclTestsRow> nccl_tests_row(std::string_view line, const NcclTestsColumns& columns);

/// One table, of one run of one program.
struct NcclTestsRun {
  std::string program;     // "all_reduce_perf"; empty when the output does not say
  std::int64_t ranks = 0;  // of a communicator; 0: not known
  NcclTestsColumns columns;
  std::vector<NcclTestsRow> rows;
};

/// The program's name in a text ("mpirun … ./build/all_reduce_perf -b 8"); empty when there is none.
std::string nccl_tests_program(std::string_view text);

/// Adds the rows of a run, each placement a call. The collective follows from the program's name, else from
/// the columns and sizes (docs/formats/nccl-tests.md).
void add_nccl_tests_run(const NcclTestsRun& run, BenchmarkTrace& trace);

}  // namespace commlens::formats::nccl_tests
