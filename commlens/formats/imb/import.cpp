#include "commlens/formats/imb/import.hpp"

#include <algorithm>
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

namespace commlens::formats::imb {
namespace {

/// The word after a key such as "# Benchmarking"; empty when the line does not have it.
std::string_view word_behind(std::string_view line, std::string_view key) {
  const std::size_t start = line.find(key);
  if (start == std::string_view::npos) {
    return {};
  }
  const std::vector<std::string_view> words = blank_separated(line.substr(start + key.size()), 1);
  return words.empty() ? std::string_view() : words[0];
}

constexpr const char* k_no_time_in_row = "row of a bandwidth of all pairs, without a time";

/// Where a row has its size and its time.
struct ImbColumns {
  std::size_t count = 0;
  std::optional<std::size_t> bytes;
  std::optional<std::size_t> time;
};

/// "#bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]"
std::optional<ImbColumns> imb_columns(std::string_view line) {
  const std::vector<std::string_view> names = blank_separated(line, 20);
  const auto column = [&](std::string_view name) -> std::optional<std::size_t> {
    const auto found = std::find(names.begin(), names.end(), name);
    return found == names.end() ? std::nullopt
                                : std::optional(static_cast<std::size_t>(found - names.begin()));
  };
  if (!column("#repetitions")) {
    return std::nullopt;
  }
  // Of a non-blocking collective, t_pure is the one that nothing overlaps.
  for (const std::string_view name : {"t_avg[usec]", "t[usec]", "t_pure[usec]"}) {
    if (const auto time = column(name)) {
      return ImbColumns{names.size(), column("#bytes"), time};
    }
  }
  return ImbColumns{names.size(), column("#bytes"), std::nullopt};  // Uniband, Biband
}

class ImbReader {
 public:
  explicit ImbReader(const std::string& origin) : origin_(origin), trace_("Intel MPI benchmarks", origin) {}

  // # Benchmarking PingPong
  // # #processes = 2
  //        #bytes #repetitions      t[usec]   Mbytes/sec
  //             0         1000         4.06         0.00
  void take(std::string_view line) {
    if (const std::string_view title = word_behind(line, "# Benchmarking "); !title.empty()) {
      title_ = valid_utf8(title.starts_with("Multi-") ? title.substr(6) : title);
      benchmark_ = mpi_benchmark(title_);
      ranks_ = 0;
      columns_.reset();
      return;
    }
    if (title_.empty()) {
      return;
    }
    if (const auto ranks = parse_integer(word_behind(line, "# #processes =")); ranks && *ranks > 0) {
      ranks_ = *ranks;
    } else if (const auto columns = imb_columns(line)) {
      columns_ = columns;
    } else if (columns_ && line.find('#') == std::string_view::npos) {
      take_row(line, *columns_);
    }
  }

  Result<Trace> finish() {
    if (trace_.is_empty()) {
      return failure(fmt::format("{}: no row with a time below \"# Benchmarking\"", origin_));
    }
    return trace_.finish();
  }

 private:
  void take_row(std::string_view line, const ImbColumns& columns) {
    const std::vector<std::string_view> words = blank_separated(line, 20);
    if (words.empty() || !parse_number(words[0])) {
      return;
    }
    if (!columns.time) {
      trace_.skip(k_no_time_in_row);
      return;
    }
    const Result<std::int64_t> bytes = words.size() < columns.count ? failure("cut off")
                                       : columns.bytes              ? parse_integer(words[*columns.bytes])
                                                                    : Result<std::int64_t>(0);
    const Result<double> time = words.size() < columns.count ? Result<double>(failure("cut off"))
                                                             : parse_number(words[*columns.time]);
    if (!bytes || !time) {
      trace_.skip("row that is cut off");
      return;
    }
    std::optional<BenchmarkPoint> point = mpi_point(benchmark_, *bytes, ranks_);
    if (!point) {
      trace_.skip(std::string(k_skipped_impossible));
      return;
    }
    point->microseconds = *time;
    point->tag = "IMB " + title_;
    trace_.add(*point);
  }

  std::string origin_;
  BenchmarkTrace trace_;
  std::string title_;
  MpiBenchmark benchmark_;
  std::int64_t ranks_ = 0;
  std::optional<ImbColumns> columns_;
};

}  // namespace

Result<Trace> read(const std::filesystem::path& path) { return read_lines<ImbReader>(path); }

bool sniff(const std::filesystem::path& path, std::string_view head) {
  bool has_title = false;
  return any_line(path, head, k_furthest_table, [&](std::string_view line) {
    has_title = has_title || !word_behind(line, "# Benchmarking ").empty();
    return has_title && imb_columns(line).has_value();
  });
}

}  // namespace commlens::formats::imb
