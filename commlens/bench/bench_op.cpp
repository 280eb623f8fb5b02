#include "commlens/bench/bench_op.hpp"

#include <algorithm>
#include <array>

#include "commlens/comm/volume.hpp"

namespace commlens::bench {
namespace {

struct NamedOp {
  BenchOp op;
  std::string_view name;
  CommKind kind;
};

// In the order of the enumerators.
constexpr std::array<NamedOp, 15> k_ops = {
    {{BenchOp::all_reduce, "all_reduce", CommKind::all_reduce},
     {BenchOp::all_gather, "all_gather", CommKind::all_gather},
     {BenchOp::reduce_scatter, "reduce_scatter", CommKind::reduce_scatter},
     {BenchOp::all_to_all, "all_to_all", CommKind::all_to_all},
     {BenchOp::broadcast, "broadcast", CommKind::broadcast},
     {BenchOp::reduce, "reduce", CommKind::reduce},
     {BenchOp::gather, "gather", CommKind::other},
     {BenchOp::scatter, "scatter", CommKind::other},
     {BenchOp::all_gather_v, "all_gather_v", CommKind::all_gather},
     {BenchOp::reduce_scatter_v, "reduce_scatter_v", CommKind::reduce_scatter},
     {BenchOp::all_to_all_v, "all_to_all_v", CommKind::all_to_all},
     {BenchOp::send, "send", CommKind::send},
     {BenchOp::ping_pong, "ping_pong", CommKind::send},
     {BenchOp::bandwidth, "bandwidth", CommKind::send},
     {BenchOp::barrier, "barrier", CommKind::barrier}}};

constexpr auto k_op_list = [] {
  std::array<BenchOp, k_ops.size()> ops{};
  for (std::size_t place = 0; place < ops.size(); ++place) {
    ops[place] = k_ops[place].op;
  }
  return ops;
}();

const NamedOp& entry(BenchOp op) { return k_ops.at(static_cast<std::size_t>(op)); }

}  // namespace

std::span<const BenchOp> all_bench_ops() { return k_op_list; }

std::string_view name_of(BenchOp op) { return entry(op).name; }

std::optional<BenchOp> bench_op_from(std::string_view name) {
  const auto* const found =
      std::find_if(k_ops.begin(), k_ops.end(), [&](const NamedOp& named) { return named.name == name; });
  return found == k_ops.end() ? std::nullopt : std::optional(found->op);
}

CommKind kind_of(BenchOp op) { return entry(op).kind; }

bool is_of_pairs(BenchOp op) { return kind_of(op) == CommKind::send; }

bool combines(BenchOp op) { return is_reducing(kind_of(op)); }

bool may_be_in_place(BenchOp op) {
  return op == BenchOp::all_reduce || op == BenchOp::reduce || op == BenchOp::broadcast;
}

bool has_unequal_parts(BenchOp op) {
  return op == BenchOp::all_gather_v || op == BenchOp::reduce_scatter_v || op == BenchOp::all_to_all_v;
}

std::int64_t parts_of(BenchOp op, std::int64_t ranks) {
  switch (op) {
    case BenchOp::all_gather:
    case BenchOp::reduce_scatter:
    case BenchOp::all_to_all:
    case BenchOp::gather:
    case BenchOp::scatter:
      return ranks;
    default:
      return 1;
  }
}

double bus_factor_of(BenchOp op, std::int64_t ranks) {
  if (ranks <= 1) {
    return 0;
  }
  // Gather and scatter move what all ranks but the root have.
  return kind_of(op) == CommKind::other ? bus_factor(CommKind::all_gather, ranks)
                                        : bus_factor(kind_of(op), ranks);
}

}  // namespace commlens::bench
