#pragma once
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// How the files of a job become one trace.
struct JoinRequest {
  std::vector<std::string> names;  // of the traces, for messages
  /// Ranks that no file has do what the profiled rank does.
  bool assume_world = false;
};

/// Whether the traces are the profile of one rank, with times, and logs without times that have calls of the
/// same rank or do not say whose calls they have.
bool is_profile_and_log(const std::vector<Trace>& traces);

/// One trace of a job of which one rank was profiled (a trace of that rank alone, with times) and, if at all,
/// its ranks' calls were logged without times (NCCL's log). The profile may cover a part of the log: its
/// calls are looked for there, in order, by kind, bytes, element type, size of the group and root, of each
/// call what both sides say; the first place is taken. Provenance::assumed counts the places where there are
/// several, and the calls found without their size. The profiled rank keeps its own calls; other ranks of the
/// logs get the calls of that part, without times, and the profile's iterations if their calls are the same.
/// A side that does not say whose calls it has takes the rank of the other one.
///
/// With `assume_world` ranks of the job that no file has get the calls of the profiled rank, without times,
/// and Provenance::assumed names them. For that all ranks of the logs must show the same sequence of calls,
/// and every call of the profile must be on a group of all ranks.
///
/// Fails, with rank and number of the first call that differs, where the calls of the profile are not in the
/// log or ranks differ that must not; without `assume_world` ranks may differ if the profile covers the whole
/// log.
Result<Trace> join_profile(std::vector<Trace> traces, const JoinRequest& request);

}  // namespace commlens::formats
