#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace commlens {

/// The process that makes a rank's calls. A number of a process is used again; with its start it is unique on
/// a machine that stays up.
struct RankProcess {
  std::string host;
  std::int64_t pid = 0;
  std::int64_t start_ticks = 0;            // when it started: field 22 of /proc/PID/stat
  std::string exe;                         // the path of its program
  std::string job_id;                      // of the batch system; empty outside of one
  std::optional<std::int64_t> local_rank;  // its place among those of the machine, as its launcher says
  friend bool operator==(const RankProcess&, const RankProcess&) = default;
};

/// Of this process; what cannot be found out is empty or 0.
RankProcess own_process();

/// When process `pid` of this machine started; std::nullopt when there is none.
std::optional<std::int64_t> start_ticks_of(std::int64_t pid);

/// The name of this machine.
std::string own_host();

}  // namespace commlens
