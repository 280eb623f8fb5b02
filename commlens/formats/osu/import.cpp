#include "commlens/formats/osu/import.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/formats/io/mpi_benchmark.hpp"
#include "commlens/formats/io/read_lines.hpp"
#include "commlens/formats/io/text_search.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::osu {
namespace {

/// "OSU MPI Allreduce Latency Test" of "# OSU MPI Allreduce Latency Test v5.8"; empty when the line is none.
std::string_view osu_title(std::string_view line) {
  const std::size_t start = line.find("# OSU ");
  // In quotes it is a title that another tool's report cites.
  if (start > 200 || line.substr(0, start).find('"') != std::string_view::npos) {
    return {};
  }
  line = line.substr(start + 2);
  const std::size_t version = std::min(line.find(" v"), line.find(" ("));
  line = line.substr(0, version);
  const bool is_test = line.find("Test") != std::string_view::npos && line.size() <= 120;
  return is_test ? line : std::string_view();
}

/// "# Size       Avg Latency(us)   Min Latency(us)": columns stand apart by a tab or two blanks.
std::vector<std::string_view> osu_column_names(std::string_view text) {
  std::vector<std::string_view> names;
  while (names.size() < 40) {
    const std::size_t start = text.find_first_not_of(" \t");
    if (start == std::string_view::npos) {
      break;
    }
    text.remove_prefix(start);
    const std::size_t end = std::min({text.find("  "), text.find('\t'), text.size()});
    names.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return names;
}

/// Where a row has its size and its average.
struct OsuColumns {
  bool has_size = false;
  std::size_t value = 0;
  bool is_bandwidth = false;  // MB/s instead of µs
};

constexpr const char* k_unknown_pairs = "row of a bandwidth summed over pairs whose number is not known";

/// N of "# [ pairs: N ] [ window size: 64 ]", whose messages a message rate test adds up; 0 when it is not
/// told.
std::int64_t osu_pairs(std::string_view line) {
  constexpr std::string_view key = "[ pairs:";
  const std::size_t start = line.find(key);
  if (start == std::string_view::npos) {
    return 0;
  }
  const std::vector<std::string_view> words = blank_separated(line.substr(start + key.size()), 1);
  const Result<std::int64_t> pairs = words.empty() ? Result<std::int64_t>(0) : parse_integer(words[0]);
  return pairs && *pairs >= 1 && *pairs <= k_max_ranks ? *pairs : 0;
}

std::optional<OsuColumns> osu_columns(std::string_view line) {
  const std::size_t start = line.find("# ");
  if (start == std::string_view::npos) {
    return std::nullopt;
  }
  const std::vector<std::string_view> names = osu_column_names(line.substr(start + 2));
  const auto column_with = [&](std::string_view part) {
    return static_cast<std::size_t>(
        std::find_if(names.begin(), names.end(),
                     [&](std::string_view name) { return name.find(part) != std::string_view::npos; }) -
        names.begin());
  };
  OsuColumns columns;
  columns.has_size = !names.empty() && names[0] == "Size";
  // Non-blocking tests print the time with computing first; alone, the collective took "Pure Comm.".
  for (const std::string_view part : {"Pure Comm", "Avg Latency", "Latency", "MB/s"}) {
    columns.value = column_with(part);
    columns.is_bandwidth = part == "MB/s";
    if (columns.value < names.size()) {
      return columns;
    }
  }
  return std::nullopt;
}

/// The number of ranks in a launcher's command line that runs a test; 0 when the line is none.
std::int64_t launched_ranks(std::string_view line) {
  if (line.find("osu_") == std::string_view::npos) {
    return 0;
  }
  constexpr std::array<std::string_view, 4> flags = {"-np", "--np", "-n", "--ntasks"};
  const std::vector<std::string_view> words = blank_separated(line, 200);
  for (std::size_t at = 0; at + 1 < words.size(); ++at) {
    const std::string_view word = words[at];
    std::string_view value;
    if (std::find(flags.begin(), flags.end(), word) != flags.end()) {
      value = words[at + 1];
    } else if (word.starts_with("--ntasks=")) {
      value = word.substr(word.find('=') + 1);
    } else if (word.starts_with("-n")) {
      value = word.substr(2);  // srun -n2
    }
    const Result<std::int64_t> ranks = parse_integer(value);
    if (ranks && *ranks >= 1 && *ranks <= k_max_ranks) {
      return *ranks;
    }
  }
  return 0;
}

std::optional<DType> osu_dtype(std::string_view line) {
  constexpr std::string_view key = "Datatype: MPI_";
  const std::size_t start = line.find(key);
  if (start == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view name = line.substr(start + key.size());
  return name.starts_with("FLOAT")  ? DType::fp32
         : name.starts_with("INT")  ? DType::int32
         : name.starts_with("CHAR") ? DType::int8
                                    : DType::uint8;
}

class OsuReader {
 public:
  explicit OsuReader(const std::string& origin) : origin_(origin), trace_("OSU micro-benchmarks", origin) {}

  void take(std::string_view line) {
    if (const std::string_view title = osu_title(line); !title.empty()) {
      title_ = valid_utf8(title);
      benchmark_ = mpi_benchmark(title_);
      ranks_ = std::exchange(launched_, 0);
      dtype_ = DType::uint8;
      columns_.reset();
      pairs_ = 0;
      return;
    }
    if (const std::int64_t ranks = launched_ranks(line); ranks > 0) {
      launched_ = ranks;
    }
    if (title_.empty()) {
      return;
    }
    if (line.find('#') != std::string_view::npos) {
      take_comment(line);
    } else if (columns_) {
      take_row(line, *columns_);
    }
  }

  Result<Trace> finish() {
    if (trace_.is_empty()) {
      return failure(fmt::format("{}: no row below the title of an OSU test", origin_));
    }
    return trace_.finish();
  }

 private:
  void take_comment(std::string_view line) {
    if (const std::int64_t pairs = osu_pairs(line); pairs > 0) {
      pairs_ = pairs;
    } else if (const auto dtype = osu_dtype(line)) {
      dtype_ = *dtype;
    } else if (const auto columns = osu_columns(line)) {
      columns_ = columns;
    }
  }

  void take_row(std::string_view line, const OsuColumns& columns) {
    const std::vector<std::string_view> words = blank_separated(line, 40);
    if (words.size() <= columns.value || !parse_number(words[0])) {
      const bool is_size_alone = columns.has_size && words.size() == 1 && parse_integer(words[0]);
      if (is_size_alone) {
        trace_.skip("row that is cut off");
      }
      return;
    }
    const Result<double> value = parse_number(words[columns.value]);
    const Result<std::int64_t> bytes = columns.has_size ? parse_integer(words[0]) : Result<std::int64_t>(0);
    if (!value || !bytes) {
      trace_.skip("row that is cut off");
      return;
    }
    add(columns, *bytes, *value);
  }

  /// How many messages travel at once, of which the printed bandwidth is the sum; 0 when it is not known.
  std::int64_t summed_messages() const {
    if (title_.find("Multiple Bandwidth") != std::string::npos) {
      return pairs_;
    }
    const bool is_both_ways = title_.find("Bi-Directional") != std::string::npos ||
                              title_.find("Bi-directional") != std::string::npos;
    return is_both_ways ? 2 : 1;
  }

  void add(const OsuColumns& columns, std::int64_t bytes, double value) {
    const std::int64_t messages = columns.is_bandwidth ? summed_messages() : 1;
    if (messages == 0) {
      trace_.skip(k_unknown_pairs);
      return;
    }
    std::optional<BenchmarkPoint> point = mpi_point(benchmark_, bytes, ranks_);
    if (!point || (columns.is_bandwidth && !(value > 0))) {
      trace_.skip(std::string(k_skipped_impossible));
      return;
    }
    const bool is_whole =
        point->input_bytes % size_of(dtype_) == 0 && point->output_bytes % size_of(dtype_) == 0;
    point->dtype = is_whole ? dtype_ : DType::uint8;
    // 1 MB/s is one byte per µs.
    point->microseconds = value;
    point->tag = title_;
    if (columns.is_bandwidth) {
      point->microseconds = static_cast<double>(bytes) * static_cast<double>(messages) / value;
      point->tag += messages == 1 ? std::string(", time = size / bandwidth")
                                  : fmt::format(", time = {} x size / bandwidth", messages);
    }
    trace_.add(*point);
  }

  std::string origin_;
  BenchmarkTrace trace_;
  std::int64_t launched_ = 0;  // by the last command line, for the next test
  std::string title_;
  MpiBenchmark benchmark_;
  std::int64_t ranks_ = 0;
  DType dtype_ = DType::uint8;
  std::optional<OsuColumns> columns_;
  std::int64_t pairs_ = 0;  // 0: not known
};

}  // namespace

Result<Trace> read(const std::filesystem::path& path) { return read_lines<OsuReader>(path); }

bool sniff(const std::filesystem::path& path, std::string_view head) {
  return any_line(path, head, k_furthest_table,
                  [](std::string_view line) { return !osu_title(line).empty(); });
}

}  // namespace commlens::formats::osu
