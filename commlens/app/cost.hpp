#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/app/format.hpp"
#include "commlens/base/result.hpp"
#include "commlens/machine/cost/collective.hpp"

namespace commlens {

/// Calls of one kind whose times are wanted.
struct CostRequest {
  std::string op = "all_reduce";
  std::string machine;  // a name of commlens machines, or a file
  std::string library;  // "nccl:2.27.3"; empty: the machine's
  std::int64_t ranks = 0;
  std::int64_t ranks_per_node = 0;  // 0: as many as the machine's nodes have
  std::vector<std::int64_t> bytes;  // of the message, in the order wanted
  std::string dtype = "fp16";
  std::string cpu;                      // "intel", "amd", "arm"; empty: the machine's
  std::vector<std::string> algorithms;  // as NCCL_ALGO restricts them
  std::vector<std::string> protocols;   // as NCCL_PROTO
  std::string tuning_log;               // of NCCL_DEBUG_SUBSYS=TUNING; empty: the library's own table
  bool explain = false;                 // every candidate of each call
};

/// The time of one call, or of one candidate for it.
struct CostRow {
  TimedCall call;
  Candidate candidate;
  CollectiveTime time;
  bool is_chosen = true;
};

/// Times in the order of the request.
struct CostResult {
  std::string machine;
  std::string title;
  Library library;
  TimedCall call;  // whose bytes are not set
  bool explain = false;
  std::vector<CostRow> rows;
};

/// The time of each call, with interval and provenance. Fails on names that are not known, on releases
/// without a table, on layouts larger than the machine and on calls that have no time.
Result<CostResult> cost(const CostRequest& request);

/// A table; JSON as schema commlens.cost/1; CSV with one line per row.
std::string rendered(const CostResult& result, Format format, const TextStyle& style = {});

}  // namespace commlens
