#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "commlens/comm/event.hpp"

namespace commlens::formats::mpip {

/// The sections of a report that say what was called. `concise` are the tables of mpiP's option -c
/// (since 3.0), which look like `times` and `sent` and are not: "Barrier 6 4 7 5 3 2 0" is a name, a site, a
/// number of ranks, then the largest, mean and smallest total of a rank, and the ranks of the largest and the
/// smallest.
enum class MpipSection : std::uint8_t { other, sites, times, sent, concise };

/// The section that a line opens: "@--- Callsite Message Sent statistics (all, sent bytes) ---".
std::optional<MpipSection> mpip_section(std::string_view line);

/// A number as printed, with 4 significant digits ("%.4g") or, with mpiP's option -e, 4 decimals; a whole
/// number of bytes lies within `half` of `value`.
struct MpipNumber {
  double value = 0;
  double half = 0;  // 0: exact
};
std::optional<MpipNumber> mpip_number(std::string_view text);

/// "  1   0 timing.c   338 main   Allreduce": a site and where it is, "timing.c:338 main".
struct MpipSite {
  std::int64_t site = 0;
  std::string place;
};
/// Only of the innermost frame (level 0).
std::optional<MpipSite> mpip_site(std::string_view line);

/// A row of the two tables of statistics: "Send 5 0 80 6000 6000 6000 4.8e+05".
struct MpipRow {
  std::string call;  // "Allreduce"
  std::int64_t site = 0;
  std::int64_t rank = -1;  // -1: "*", all ranks together
  std::int64_t count = 0;
  MpipNumber largest;
  MpipNumber smallest;
  MpipNumber sum;  // of the table of sizes
};
std::optional<MpipRow> mpip_row(std::string_view line);

/// The op of a call that sends something; `other` for those whose message mpiP's size does not report
/// (allgather, alltoall, …).
CommKind mpip_kind(std::string_view call);

/// Sizes of the calls of a row: `larger` of them have `bytes` + 1, the others `bytes`, each within
/// `rounding`.
struct MpipSizes {
  std::int64_t bytes = 0;
  std::int64_t larger = 0;
  std::int64_t rounding = 0;
};
/// std::nullopt if the numbers contradict each other or are beyond 1 PiB.
std::optional<MpipSizes> mpip_sizes(const MpipRow& row);

}  // namespace commlens::formats::mpip
