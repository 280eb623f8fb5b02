#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/app/bench.hpp"
#include "commlens/app/bench_launch.hpp"
#include "commlens/base/result.hpp"
#include "commlens/comm/mesh.hpp"

namespace commlens {

/// "8:64M:x2" (times 2 from 8 to 64 MiB), "8:100:+4", "8,100,64K": sizes in bytes, ascending. K, M and G are
/// binary.
Result<std::vector<std::int64_t>> bench_sizes(std::string_view text);

/// "dp=4,tp=2", slowest first.
Result<Mesh> mesh_from(std::string_view text);

/// The rows of given ops, sizes, types and groups on so many ranks. A size that the op cannot divide is
/// rounded up.
Result<BenchPlan> plan_of_sizes(const BenchRequest& request, std::int64_t ranks);

/// Adds a row, and its groups where they are new. Rows of one key are one.
void add_row(BenchPlan& plan, const BenchPlanRow& row, const std::vector<bench::BenchCase>& cases,
             const std::vector<bench::GroupSet>& groups);

}  // namespace commlens
