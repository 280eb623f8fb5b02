#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/transport/nccl_api.hpp"

namespace commlens {

class NcclHandle;

/// The end of the job for all NCCL communicators of the process: a rank that waits for a lost one is only
/// freed by aborting its own communicator.
class NcclJobEnd {
 public:
  void add(NcclHandle* handle);
  void remove(NcclHandle* handle);
  /// The first reason counts.
  void end(std::string_view reason);
  void throw_if_ended();

 private:
  std::mutex mutex_;
  std::vector<NcclHandle*> handles_;
  std::optional<std::string> reason_;
};

NcclJobEnd& nccl_job_end();

/// What a communicator and its works own on the device.
class NcclHandle {
 public:
  NcclHandle(const NcclApi& api, int device);
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;
  ~NcclHandle();

  const NcclApi& api() const { return api_; }
  NcclStream stream() const { return stream_; }
  void* cell() const { return cell_; }
  int device() const { return device_; }

  /// Autograd calls from its own threads, whose current device differs.
  void use_device() const { gpu(api_.set_device(device_), "choosing the device"); }

  void connect(int ranks, const NcclUniqueId& id, int rank);

  /// The communicator, unless the job has ended.
  NcclComm comm() const;

  /// Frees threads that are inside a call of the communicator or wait for one. NCCL allows this concurrently
  /// with calls of other threads.
  void abort();

  /// Throws an asynchronous error of the communicator (a lost peer, a device error).
  void throw_async_error();

  /// Orders the work of the default stream so far before the next work of the communicator's stream.
  void follow_default_stream() const;

  /// Throw SystemError unless the code says success.
  void gpu(int error, const char* what) const;
  void nccl(int error, const char* what) const;

 private:
  const NcclApi& api_;
  int device_;
  std::mutex mutex_;  // abort against the query of asynchronous errors
  std::atomic<NcclComm> comm_ = nullptr;
  NcclStream stream_ = nullptr;
  NcclEvent ready_ = nullptr;
  void* cell_ = nullptr;  // device memory of one int32, for barriers
};

}  // namespace commlens
