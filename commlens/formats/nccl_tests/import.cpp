#include "commlens/formats/nccl_tests/import.hpp"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/formats/io/read_lines.hpp"
#include "commlens/formats/io/text_search.hpp"
#include "commlens/formats/nccl_tests/rows.hpp"

namespace commlens::formats::nccl_tests {
namespace {

constexpr const char* k_torn_row = "row torn apart, cut off or impossible";

/// "#  Rank  0 Group  0 Pid 1234 on host device 0 [0x07] A100" (no group in old versions).
struct TestDevice {
  std::int64_t rank = 0;
  std::int64_t group = 0;
};

std::optional<TestDevice> test_device(std::string_view line) {
  const std::size_t start = line.find("# ");
  if (start == std::string_view::npos) {
    return std::nullopt;
  }
  const std::vector<std::string_view> words = blank_separated(line.substr(start + 1), 6);
  if (words.size() < 6 || words[0] != "Rank") {
    return std::nullopt;
  }
  const bool has_group = words[2] == "Group";
  if (words[has_group ? 4 : 2] != "Pid") {
    return std::nullopt;
  }
  const Result<std::int64_t> rank = parse_integer(words[1]);
  const Result<std::int64_t> group = has_group ? parse_integer(words[3]) : Result<std::int64_t>(0);
  return rank && group ? std::optional(TestDevice{*rank, *group}) : std::nullopt;
}

/// Reads one log, which may hold the output of several runs.
class NcclTestsReader {
 public:
  explicit NcclTestsReader(const std::string& origin) : origin_(origin), trace_("nccl-tests", origin) {}

  void take(std::string_view line) {
    if (auto columns = nccl_tests_columns(line)) {
      start_table(std::move(*columns));
      return;
    }
    if (is_in_table_ && starts_nccl_tests_row(line, table_.columns)) {
      take_row(line);
      return;
    }
    if (const auto device = test_device(line)) {
      end_table();
      devices_.emplace(device->rank, device->group);
      return;
    }
    std::string program = nccl_tests_program(line);
    if (!program.empty() && line.find("concluded") == std::string_view::npos) {
      program_ = std::move(program);
    }
  }

  Result<Trace> finish() {
    end_table();
    if (trace_.is_empty()) {
      return failure(fmt::format("{}: no row of nccl-tests below the table's header", origin_));
    }
    return trace_.finish();
  }

 private:
  void start_table(NcclTestsColumns columns) {
    end_table();
    table_ = {};
    is_in_table_ = true;
    table_.columns = std::move(columns);
    table_.program = std::exchange(program_, {});
    for (const auto& [rank, group] : devices_) {
      table_.ranks += group == devices_.begin()->second ? 1 : 0;  // rank 0 prints
    }
    devices_.clear();
  }

  void end_table() {
    if (is_in_table_) {
      add_nccl_tests_run(table_, trace_);
      is_in_table_ = false;
    }
  }

  void take_row(std::string_view line) {
    if (auto row = nccl_tests_row(line, table_.columns)) {
      table_.rows.push_back(std::move(*row));
    } else {
      trace_.skip(k_torn_row);
    }
  }

  std::string origin_;
  BenchmarkTrace trace_;
  std::string program_;                           // of the next table
  std::map<std::int64_t, std::int64_t> devices_;  // of the next table: rank -> group
  NcclTestsRun table_;
  bool is_in_table_ = false;
};

}  // namespace

std::string device_named(std::string_view log) {
  std::string name;
  while (!log.empty() && name.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    const std::size_t device = line.find(" device ");
    const std::size_t bus = device == std::string_view::npos ? device : line.find(']', device);
    if (bus != std::string_view::npos && test_device(line)) {
      name = std::string(trimmed(line.substr(bus + 1)));
    }
    log.remove_prefix(std::min(line.size() + 1, log.size()));
  }
  return name;
}

Result<Trace> read(const std::filesystem::path& path) { return read_lines<NcclTestsReader>(path); }

bool sniff(const std::filesystem::path& path, std::string_view head) {
  return any_line(path, head, k_furthest_table,
                  [](std::string_view line) { return nccl_tests_columns(line).has_value(); });
}

}  // namespace commlens::formats::nccl_tests
