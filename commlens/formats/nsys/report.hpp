#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/nccl_names.hpp"
#include "commlens/formats/io/sqlite_database.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::nsys {

/// A process (globalPid of Nsight) and the GPU it uses.
struct NsysDevice {
  std::int64_t process = 0;
  std::int64_t device = 0;
  friend auto operator<=>(const NsysDevice&, const NsysDevice&) = default;
};

/// A kernel that communicates. Times are nanoseconds after the start of the session.
struct NsysKernel {
  NsysDevice where;
  std::int64_t started = 0;
  std::int64_t finished = 0;
  std::int64_t name = 0;         // StringIds.id
  std::int64_t correlation = 0;  // with the call that launched it
  std::int64_t stream = 0;
  std::optional<std::int64_t> thread;    // globalTid of that call
  std::optional<std::int64_t> launched;  // its start
};

/// A call of NCCL's API, from its NVTX range.
struct NsysCall {
  std::int64_t thread = 0;
  std::int64_t started = 0;
  std::int64_t finished = 0;
  const NcclFunction* function = nullptr;
  std::optional<std::int64_t> comm;
  std::optional<std::int64_t> bytes;  // of one message, as NCCL's payload has it
  std::optional<std::int64_t> root;
  std::optional<std::int64_t> peer;
};

/// A rank of a communicator, from the NVTX range of its creation.
struct NsysComm {
  std::int64_t process = 0;
  std::optional<std::int64_t> device;
  std::int64_t comm = 0;
  std::int64_t ranks = 0;
  std::int64_t rank = 0;
};

/// The process of a thread: both numbers share all but the lowest 24 bits.
constexpr std::int64_t process_of_thread(std::int64_t global_tid) {
  return global_tid & ~std::int64_t{0xffffff};
}

/// Reads the tables that concern communication, whichever of them are there.
class NsysReport {
 public:
  NsysReport(const SqliteDatabase& database, Provenance& provenance)
      : database_(database), provenance_(provenance) {}

  /// Fails when the file is no report, or damaged.
  Result<void> read();
  /// Gives every other kernel as a compute interval of its device. To be called after `read`.
  Result<void> visit_compute(
      const std::function<void(NsysDevice, std::int64_t started, std::int64_t finished)>& visit);

  const std::vector<NsysKernel>& kernels() const { return kernels_; }  // ascending by start
  const std::vector<NsysCall>& calls() const { return calls_; }        // ascending by start
  const std::vector<NsysComm>& comms() const { return comms_; }
  std::string_view name(std::int64_t id) const;
  bool has_kernel_table() const { return has("CUPTI_ACTIVITY_KIND_KERNEL"); }
  /// Nanoseconds of the clock of the day at time 0; 0 when it is not known.
  std::int64_t session_start() const { return session_start_; }

 private:
  bool has(const std::string& table) const { return tables_.contains(table); }
  bool has(const std::string& table, const std::string& column) const;
  Result<void> read_schema();
  Result<void> read_session();
  Result<void> read_kernel_names();
  Result<void> read_kernels();
  Result<void> read_launches();
  Result<void> read_ranges();
  void take_range(const SqliteStatement& row);
  Result<void> count_what_is_left_out();
  std::string kernel_name_column() const;

  const SqliteDatabase& database_;
  Provenance& provenance_;
  std::map<std::string, std::set<std::string>> tables_;  // with their columns
  std::int64_t session_start_ = 0;
  std::map<std::int64_t, std::string> communication_names_;  // of kernels, by StringIds.id
  std::vector<NsysKernel> kernels_;
  std::vector<NsysCall> calls_;
  std::vector<NsysComm> comms_;
};

}  // namespace commlens::formats::nsys
