#include "commlens/report/figures/formulas_figure.hpp"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

// n is the number of ranks of a call's group, m its message bytes.
constexpr std::array<Formula, 14> k_formulas = {{
    {"message-bytes", "message bytes m of a call",
     "all_reduce, broadcast, reduce, send, recv: the tensor; all_gather: the gathered whole; reduce_scatter: "
     "the "
     "whole input; all_to_all: the whole send buffer; barrier: 0",
     "docs/volumes.md#the-table"},
    {"wire-bytes", "wire bytes each rank sends",
     "all_reduce 2 m (n-1)/n; all_gather, reduce_scatter, all_to_all m (n-1)/n; broadcast, reduce m (n-1)/n, "
     "the mean "
     "over ranks; send m; recv, barrier 0; n = 1: 0",
     "docs/volumes.md#derivations"},
    {"aggregate", "wire bytes, all ranks", "the sum of the wire bytes over the ranks", "docs/volumes.md"},
    {"bandwidth", "bandwidths",
     "algorithm bandwidth = message bytes / time; bus bandwidth = that x factor: all_reduce 2 (n-1)/n; "
     "all_gather, "
     "reduce_scatter, all_to_all (n-1)/n; others 1. Of many calls: the sum of their bytes over the sum of "
     "their "
     "times",
     "docs/volumes.md#bus-bandwidth, nccl-tests doc/PERFORMANCE.md"},
    {"inter-node", "wire bytes between nodes",
     "ring kinds: wire bytes x (edges of the ring between nodes)/n; all_to_all: x (members on other "
     "nodes)/(n-1); "
     "send: all or nothing",
     "docs/volumes.md#inside-a-node-and-between-nodes"},
    {"quantiles", "P50 and P95",
     "the ceil(n/2)-th and ceil(95 n/100)-th of n times in ascending order; the interval of P50 holds the "
     "median with "
     "at least 95 % if calls are independent (order statistics); beyond a million calls within 1 %",
     "docs/summary.md#times"},
    {"cold", "cold and warm",
     "a rank's cold iteration is the first (>= 0) that it issues, warm are all later ones; initialisation is "
     "neither",
     "docs/summary.md"},
    {"first-calls", "what first calls cost",
     "time of first calls on a group, less the number of them x the mean of later calls with the same op, "
     "sizes and "
     "group",
     "docs/summary.md"},
    {"overlap", "exposed and overlapped",
     "C: the union of a rank's calls in time, K: the union of its compute; total = |C|, exposed = |C without "
     "K|, "
     "overlapped = |C and K|; exposed + overlapped = total",
     "commlens/summary/overlap.hpp"},
    {"slow-ranks", "slow ranks",
     "time between calls: the pieces of a rank's time that end because a call starts, by its own clock, and "
     "what it computes in calls; over blocks of 64 calls of the same numbers of a communicator. A rank is "
     "slow in a block when it exceeds the median m of the members by more than m/20, three times their "
     "median distance to m, 1/100 of the block and half of the largest excess, and its time in calls is not "
     "above the median",
     "commlens/summary/slow_ranks.hpp"},
    {"waits", "waits",
     "the k-th calls of the same kind, group and root of all members are one collective; a member that "
     "arrives at A and "
     "ends at E waits min(E, last arrival) - A; the last arrival causes all waits",
     "commlens/summary/stragglers.hpp"},
    {"bubble", "pipeline bubble",
     "the part of a rank's iteration in which it neither computes nor is in another call than sends and "
     "receives; "
     "without compute times: the time in sends and receives, an upper bound; ideal: (p-1)/(v m + p-1) for p "
     "stages, "
     "m micro-batches, v chunks a rank",
     "commlens/summary/bubble.hpp, Narayanan et al. SC 2021"},
    {"matrix", "who sends to whom",
     "send: as recorded; ring through the members in ascending order for all_reduce, all_gather, "
     "reduce_scatter, "
     "broadcast, reduce; equal parts to all others for all_to_all",
     "docs/report.md#matrix"},
    {"comparison", "equal calls",
     "per rank and iteration, the multisets of (op, dtype, input bytes, output bytes, group, root or peer)",
     "docs/formats/calls.md"},
}};

std::string value_text(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}", value);
}

}  // namespace

std::span<const Formula> formulas() { return k_formulas; }

FigureResult formulas_figure(const FigureInput& input) {
  Table table(columns({Column{"title", "number"}, "formula", "source"}));
  for (const Formula& formula : k_formulas) {
    table.add({formula.title, formula.text, formula.source});
  }
  for (const JobEquation& equation : input.equations) {
    table.add({fmt::format("equation {} of arXiv 2408.10197, {}", equation.equation, equation.scope),
               fmt::format("{} = {} {} as printed; exact {}{}{}", equation.text, value_text(equation.value),
                           equation.unit, value_text(equation.value_exact), equation.note.empty() ? "" : ": ",
                           equation.note),
               "arXiv 2408.10197"});
  }
  Figure figure;
  figure.caption = "n is the number of ranks of a call's group, m its message bytes.";
  figure.columns = figure_columns(table);
  return figure;
}

}  // namespace commlens
