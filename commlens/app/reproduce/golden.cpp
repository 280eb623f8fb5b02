#include "commlens/app/reproduce/golden.hpp"

#include <algorithm>
#include <charconv>

#include "commlens/base/check.hpp"
#include "commlens/base/csv.hpp"
#include "commlens/comm/volume.hpp"

namespace commlens::study {
namespace {

std::int64_t whole(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  COMMLENS_CHECK(error == std::errc() && end == text.data() + text.size(),
                 "data/reproduce has whole numbers where sizes and counts are");
  return value;
}

std::vector<GoldenRun> read_runs() {
  COMMLENS_CHECK(built_in_recordings().size() == 1, "data/reproduce has one table");
  const Result<CsvTable> table = parse_csv(built_in_recordings().front().text);
  COMMLENS_CHECK(table.has_value(), "data/reproduce/recorded.csv is a table");
  std::vector<GoldenRun> runs;
  for (const CsvTable::Row& row : table->rows) {
    const std::string name = table->cell(row, "run");
    if (runs.empty() || runs.back().name != name) {
      runs.push_back({name,
                      table->cell(row, "framework"),
                      table->cell(row, "model"),
                      whole(table->cell(row, "ranks")),
                      {}});
    }
    runs.back().calls.push_back({whole(table->cell(row, "iteration")),
                                 comm_kind_from(table->cell(row, "op")).value_or(CommKind::other),
                                 whole(table->cell(row, "group_size")),
                                 {whole(table->cell(row, "message_bytes"))},
                                 whole(table->cell(row, "calls"))});
  }
  return runs;
}

}  // namespace

GoldenCalls GoldenRun::total(CommKind op, std::int64_t iteration, Bytes size) const {
  GoldenCalls sum{iteration, op, 0, {}, 0};
  for (const GoldenCalls& row : calls) {
    if (row.op == op && row.iteration == iteration && row.group_size > 1 &&
        (size.value == 0 || row.message == size)) {
      sum.group_size = row.group_size;
      sum.message += row.message * row.calls;
      sum.calls += row.calls;
    }
  }
  return sum;
}

Bytes GoldenRun::wire(CommKind op, std::int64_t iteration) const {
  Bytes sum;
  for (const GoldenCalls& row : calls) {
    if (row.op == op && row.iteration == iteration) {
      sum += wire_bytes(op, row.message * row.calls, row.group_size);
    }
  }
  return sum;
}

const std::vector<GoldenRun>& golden_runs() {
  static const std::vector<GoldenRun> runs = read_runs();
  return runs;
}

const GoldenRun& golden_run(std::string_view name) {
  const auto found = std::ranges::find(golden_runs(), name, &GoldenRun::name);
  COMMLENS_CHECK(found != golden_runs().end(), "data/reproduce has the runs that figures name");
  return *found;
}

}  // namespace commlens::study
