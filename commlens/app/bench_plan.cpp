#include "commlens/app/bench_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/layout_options.hpp"
#include "commlens/base/text.hpp"

namespace commlens {
namespace {

using bench::BenchCase;
using bench::BenchOp;
using bench::GroupSet;

constexpr std::size_t k_most_sizes = 1000;
constexpr std::int64_t k_largest_size = std::int64_t{1} << 40;

Result<std::int64_t> bench_size(std::string_view text) {
  std::string spelled(text);
  if (!spelled.empty() && std::string_view("KMGT").find(spelled.back()) != std::string_view::npos) {
    spelled += "iB";
  }
  return parse_bytes(spelled).and_then([&](Bytes bytes) -> Result<std::int64_t> {
    if (bytes.value < 1 || bytes.value > k_largest_size) {
      return failure(fmt::format("'{}' is no size of a message; write 1 to 1T", text));
    }
    return bytes.value;
  });
}

/// FIRST:LAST[:xFACTOR|:+STEP].
Result<std::vector<std::int64_t>> size_range(const std::vector<std::string>& parts) {
  const std::string step = parts.size() > 2 ? parts[2] : "x2";
  const Result<std::int64_t> first = bench_size(parts[0]);
  const Result<std::int64_t> last = bench_size(parts[1]);
  if (!first || !last) {
    return tl::unexpected(!first ? first.error() : last.error());
  }
  const bool multiplies = step.starts_with("x");
  const Result<double> factor = multiplies ? parse_number(step.substr(1)) : Result<double>(1);
  const Result<std::int64_t> added =
      step.starts_with("+") ? bench_size(step.substr(1)) : Result<std::int64_t>(0);
  if (!factor || !added || (multiplies ? *factor <= 1 : *added < 1)) {
    return failure(fmt::format("'{}' is no step; write x2 (times 2) or +4K (4 KiB more)", step));
  }
  std::vector<std::int64_t> sizes;
  for (double size = static_cast<double>(*first); size <= static_cast<double>(*last);
       size = multiplies ? size * *factor : size + static_cast<double>(*added)) {
    sizes.push_back(static_cast<std::int64_t>(std::llround(size)));
    if (sizes.size() > k_most_sizes) {
      return failure(fmt::format("more than {} sizes; choose a larger step", k_most_sizes));
    }
  }
  return sizes.empty() ? Result<std::vector<std::int64_t>>(
                             failure(fmt::format("'{}' is above '{}'", parts[0], parts[1])))
                       : Result<std::vector<std::int64_t>>(std::move(sizes));
}

std::vector<std::string> split_at(std::string_view text, char at) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t end = text.find(at); end != std::string_view::npos; end = text.find(at, from)) {
    parts.emplace_back(text.substr(from, end - from));
    from = end + 1;
  }
  parts.emplace_back(text.substr(from));
  return parts;
}

/// Ops without pairs, which --groups world has; `given`: as the user named them.
Result<std::vector<BenchOp>> bench_ops(const std::vector<std::string>& given) {
  if (given.empty()) {
    return std::vector<BenchOp>{BenchOp::all_reduce, BenchOp::all_gather, BenchOp::reduce_scatter,
                                BenchOp::all_to_all, BenchOp::broadcast};
  }
  std::vector<BenchOp> ops;
  std::vector<std::string_view> names;
  for (const BenchOp op : bench::all_bench_ops()) {
    names.push_back(name_of(op));
  }
  for (const std::string& name : given) {
    const std::optional<BenchOp> op = bench::bench_op_from(name);
    if (!op) {
      const std::string near = nearest(name, names);
      return failure(fmt::format("'{}' is no op to time{}; choose of {}", name,
                                 near.empty() ? "" : fmt::format(" (did you mean {}?)", near),
                                 fmt::join(names, ", ")));
    }
    ops.push_back(*op);
  }
  return ops;
}

Result<std::vector<DType>> bench_dtypes(const std::string& text) {
  std::vector<DType> types;
  for (const std::string& name : comma_list(text)) {
    const std::optional<DType> type = dtype_from(name);
    if (!type) {
      return failure(
          fmt::format("--dtype {}: is no element type; choose of fp64, fp32, fp16, bf16, fp8, int64, "
                      "int32, int16, int8, uint8",
                      name));
    }
    types.push_back(*type);
  }
  return types;
}

/// The group sets of one word of --groups: "tp", or "tp+dp".
Result<std::vector<GroupSet>> group_sets(const std::string& word, std::int64_t ranks,
                                         const std::optional<Mesh>& mesh) {
  std::vector<GroupSet> sets;
  for (const std::string& name : split_at(word, '+')) {
    Result<GroupSet> set =
        name == "world"   ? Result<GroupSet>(bench::world_groups(ranks))
        : name == "pairs" ? Result<GroupSet>(bench::pair_groups(ranks))
        : mesh
            ? bench::axis_groups(*mesh, name)
            : Result<GroupSet>(failure(fmt::format("'{}' is an axis, of which --mesh says the sizes: --mesh "
                                                   "dp=2,{}={}",
                                                   name, name, std::max<std::int64_t>(1, ranks / 2))));
    if (!set) {
      return failure(fmt::format("--groups {}: {}", word, set.error().message));
    }
    if (set->groups.empty()) {
      return failure(fmt::format("--groups {}: one rank has no pair; give --ranks 2 or more", word));
    }
    sets.push_back(std::move(*set));
  }
  if (sets.size() > 2) {
    return failure(fmt::format("--groups {}: at most two sets of groups at once", word));
  }
  return sets;
}

bool can_combine(DType type) { return type != DType::fp8 && type != DType::boolean; }

/// The case of a size in groups of a set; its message in whole elements of all parts.
BenchCase case_of(BenchOp op, DType dtype, std::int64_t bytes, const GroupSet& set, bool in_place) {
  BenchCase timed{.op = op, .dtype = dtype, .ranks = set.size()};
  const std::int64_t unit = size_of(dtype) * bench::parts_of(op, timed.ranks);
  timed.message = {op == BenchOp::barrier ? 0 : round_up(bytes, unit) / size_of(dtype)};
  timed.in_place = in_place && bench::may_be_in_place(op);
  return timed;
}

/// Rows of an op, in all sizes.
Result<void> add_rows(BenchPlan& plan, BenchOp op, DType dtype, const std::vector<GroupSet>& sets,
                      const BenchRequest& request, const std::vector<std::int64_t>& sizes) {
  if (bench::combines(op) && !can_combine(dtype)) {
    return failure(fmt::format("--dtype {}: {} cannot combine it", name_of(dtype), name_of(op)));
  }
  std::string group;
  for (const GroupSet& set : sets) {
    if (bench::is_of_pairs(op) && set.size() != 2) {
      return failure(
          fmt::format("{} is between the 2 ranks of a pair, and {} has groups of {}; --groups pairs",
                      name_of(op), set.name, set.size()));
    }
    group += group.empty() ? set.name : "+" + set.name;
  }
  const bool has_several = sets.size() > 1;
  if (has_several && (op == BenchOp::ping_pong || op == BenchOp::bandwidth)) {
    return failure(fmt::format(
        "{} is of several calls, which cannot be in flight at once with others; use send", name_of(op)));
  }
  for (const std::int64_t bytes : op == BenchOp::barrier ? std::vector<std::int64_t>{0} : sizes) {
    std::vector<BenchCase> cases;
    for (const GroupSet& set : sets) {
      cases.push_back(case_of(op, dtype, bytes, set, request.in_place));
    }
    BenchPlanRow row;
    row.key = {std::string(name_of(op)),
               std::string(name_of(dtype)),
               group,
               has_several ? 0 : sets.front().size(),
               cases.front().bytes().value,
               cases.front().in_place};
    add_row(plan, row, cases, sets);
  }
  return {};
}

}  // namespace

Result<std::vector<std::int64_t>> bench_sizes(std::string_view text) {
  std::set<std::int64_t> sizes;
  for (const std::string& word : split_at(text, ',')) {
    const std::vector<std::string> parts = split_at(word, ':');
    if (parts.size() > 3) {
      return failure(fmt::format("--sizes {}: '{}' is not FIRST:LAST:STEP", text, word));
    }
    const Result<std::vector<std::int64_t>> some =
        parts.size() > 1 ? size_range(parts)
                         : bench_size(parts[0]).map([](std::int64_t size) { return std::vector{size}; });
    if (!some) {
      return failure(fmt::format("--sizes {}: {}", text, some.error().message));
    }
    sizes.insert(some->begin(), some->end());
  }
  return std::vector(sizes.begin(), sizes.end());
}

Result<Mesh> mesh_from(std::string_view text) {
  std::vector<MeshAxis> axes;
  for (const std::string& word : split_at(text, ',')) {
    const std::size_t equals = word.find('=');
    const std::optional<Axis> axis = Axis::from(word.substr(0, equals));
    const Result<std::int64_t> size =
        equals == std::string::npos ? failure("") : parse_integer(word.substr(equals + 1));
    if (!axis || !size || *size < 1) {
      return failure(
          fmt::format("--mesh {}: '{}' is not AXIS=SIZE; write dp=4,tp=2, slowest first", text, word));
    }
    axes.push_back({*axis, *size});
  }
  return Mesh::of(std::move(axes)).map_error([&](const Error& error) {
    return Error{fmt::format("--mesh {}: {}", text, error.message)};
  });
}

void add_row(BenchPlan& plan, const BenchPlanRow& row, const std::vector<BenchCase>& cases,
             const std::vector<GroupSet>& groups) {
  const bool is_there = std::any_of(plan.rows.begin(), plan.rows.end(),
                                    [&](const BenchPlanRow& other) { return other.key == row.key; });
  if (is_there) {
    return;
  }
  bench::PlannedRow planned;
  for (std::size_t place = 0; place < cases.size(); ++place) {
    std::vector<GroupSet>& sets = plan.measured.groups;
    const auto found = std::find(sets.begin(), sets.end(), groups[place]);
    const auto index = static_cast<std::size_t>(found - sets.begin());
    if (found == sets.end()) {
      sets.push_back(groups[place]);
    }
    planned.calls.push_back({cases[place], index});
  }
  plan.rows.push_back(row);
  plan.measured.rows.push_back(std::move(planned));
}

Result<BenchPlan> plan_of_sizes(const BenchRequest& request, std::int64_t ranks) {
  const Result<std::vector<BenchOp>> ops = bench_ops(request.ops);
  const Result<std::vector<DType>> types = bench_dtypes(request.dtypes);
  const Result<std::vector<std::int64_t>> sizes =
      bench_sizes(request.sizes.empty() ? "8:4M:x8" : request.sizes);
  if (!ops || !types || !sizes) {
    return tl::unexpected(!ops ? ops.error() : !types ? types.error() : sizes.error());
  }
  std::optional<Mesh> mesh;
  if (!request.mesh.empty()) {
    const Result<Mesh> given = mesh_from(request.mesh);
    if (!given) {
      return tl::unexpected(given.error());
    }
    if (given->ranks() != ranks) {
      return failure(fmt::format("--mesh {}: has {} ranks, the job {}", request.mesh, given->ranks(), ranks));
    }
    mesh = *given;
  }
  BenchPlan plan;
  for (const BenchOp op : *ops) {
    const std::string groups = !request.groups.empty()  ? request.groups
                               : bench::is_of_pairs(op) ? "pairs"
                                                        : "world";
    for (const std::string& word : comma_list(groups)) {
      const Result<std::vector<GroupSet>> sets = group_sets(word, ranks, mesh);
      if (!sets) {
        return tl::unexpected(sets.error());
      }
      for (const DType type : *types) {
        if (const Result<void> added = add_rows(plan, op, type, *sets, request, *sizes); !added) {
          return tl::unexpected(added.error());
        }
      }
    }
  }
  return Result<BenchPlan>(std::move(plan));
}

}  // namespace commlens
