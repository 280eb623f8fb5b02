#pragma once
#include <nlohmann/json_fwd.hpp>

#include "commlens/app/bench.hpp"
#include "commlens/base/table.hpp"

namespace commlens {

/// The rows with all columns; in text without those that are the same in all rows.
Table bench_table(const BenchRun& run);
/// Rows of two results.
Table bench_check_table(const std::vector<BenchCheck>& checks);

/// Schema commlens.bench/1 (docs/output.md): the rows of all launches, then each launch.
nlohmann::ordered_json bench_json(const BenchResult& result);

}  // namespace commlens
