#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/machine/cost/call.hpp"

namespace commlens {

/// A measured time of a call.
struct SweepPoint {
  TimedCall call;
  double us = 0;
  double weight = 1;           // calls that the time is a median of, where the file says so
  std::string library;         // "nccl", "rccl", "mpi"; empty: not said
  std::string version;         // "2.27.3"; empty: not said
  std::string algorithm;       // that was asked for; "any": the circumstances are not known; empty: none was
  std::string device;          // as the file names the machine or its GPU; empty: not said
  bool has_nodes = false;      // the file says on how many nodes; else ranks alone
  bool is_in_job = false;      // logged by a training job, not by a benchmark
  std::int64_t job_nodes = 1;  // of the whole job that the group is part of
  std::string where;           // "FILE:LINE"
};

/// What a file of sweeps holds, and what of it was skipped.
struct SweepFile {
  std::vector<SweepPoint> points;
  std::vector<std::string> notes;
};

/// An operation and an element type by our names or those of benchmarks: "alltoall", "bcast", "half",
/// "float".
std::optional<CommKind> timed_kind_from(std::string_view name);
std::optional<DType> element_type_from(std::string_view name);

/// Whether a text starts with the header of one of the tables that parse_sweep_csv reads.
bool is_sweep_csv(std::string_view content);

/// Rows of
///   machine,library,op,ranks,nodes,ranks_per_node,dtype,bytes,time_us,…        bytes as nccl-tests counts
///   them framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency
///                                                    elements of the whole message, milliseconds
/// Fails on a row that cannot be (a time that is no positive number, say), and on a table without rows.
Result<SweepFile> parse_sweep_csv(const std::string& file, std::string_view content);

}  // namespace commlens
