#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "commlens/comm/event.hpp"

namespace commlens::bench {

/// What one row times.
enum class BenchOp : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  reduce,
  gather,
  scatter,
  all_gather_v,  // parts of unequal sizes
  reduce_scatter_v,
  all_to_all_v,
  send,       // one message between the two ranks of a pair
  ping_pong,  // there and back, the time is half of it
  bandwidth,  // messages of a window under way at once, then one back; the time is that of one message
  barrier
};

constexpr std::int64_t k_bandwidth_window = 64;

std::span<const BenchOp> all_bench_ops();
std::string_view name_of(BenchOp op);
std::optional<BenchOp> bench_op_from(std::string_view name);

/// The kind of its calls in traces.
CommKind kind_of(BenchOp op);
/// Whether it is between the two ranks of a pair.
bool is_of_pairs(BenchOp op);
/// Whether its calls combine values, which some types cannot.
bool combines(BenchOp op);
/// Whether a call's input may be its output.
bool may_be_in_place(BenchOp op);
/// Whether ranks have parts of unequal sizes.
bool has_unequal_parts(BenchOp op);
/// How many equal parts the message has in a group, at least: a size is rounded up to a multiple.
std::int64_t parts_of(BenchOp op, std::int64_t ranks);

/// What the bandwidth of nccl-tests is multiplied with for its bus bandwidth; 0 in a group of one. Source:
/// nccl-tests src/*.cu, getBw.
double bus_factor_of(BenchOp op, std::int64_t ranks);

}  // namespace commlens::bench
