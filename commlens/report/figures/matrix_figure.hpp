#pragma once
#include <cstdint>
#include <map>
#include <utility>

#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// Bytes each rank (or block of ranks) sends to each other one. The rows of one source add up to the wire
/// bytes of comm/volume.hpp, its calls added up per op and group before the formula rounds.
///   send: its message, to its destination
///   all_reduce, all_gather, reduce_scatter, broadcast, reduce: a ring through the members in ascending
///   order;
///     each member sends its wire bytes to the next (for broadcast and reduce their mean over the members)
///   all_to_all: each member sends an equal part of its wire bytes to every other; bytes that are left over
///   go
///     one each to the members that follow it
FigureResult matrix_figure(const FigureInput& input);

/// How many consecutive ranks a row of the matrix stands for: 1 up to 512 ranks, else the smallest multiple
/// of `ranks_per_node` (1 when not known) times a power of two that leaves at most 512 blocks.
std::int64_t ranks_per_block(std::int64_t ranks, std::int64_t ranks_per_node);

/// (source block, destination block) -> bytes, without empty cells; `block` ranks each.
using TrafficCells = std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>;
TrafficCells traffic_cells(const FigureInput& input, std::int64_t block);

}  // namespace commlens
