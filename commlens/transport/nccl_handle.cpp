#include "commlens/transport/nccl_handle.hpp"

#include <exception>

#include <fmt/format.h>

namespace commlens {

NcclJobEnd& nccl_job_end() {
  static NcclJobEnd end;
  return end;
}

NcclHandle::NcclHandle(const NcclApi& api, int device) : api_(api), device_(device) {
  use_device();
  gpu(api_.stream_create(&stream_, k_stream_non_blocking), "creating a stream");
  gpu(api_.event_create(&ready_, k_event_without_timing), "creating an event");
  gpu(api_.allocate(&cell_, sizeof(std::int32_t)), "allocating memory");
  nccl_job_end().add(this);
}

NcclHandle::~NcclHandle() {
  if (std::uncaught_exceptions() > 0) {
    // Destroying it would wait for calls of other ranks, which wait for calls that this rank no longer
    // makes.
    nccl_job_end().end("another rank of this process has failed");
  }
  nccl_job_end().remove(this);
  api_.set_device(device_);
  if (NcclComm comm = comm_.exchange(nullptr); comm != nullptr) {
    api_.comm_destroy(comm);
  }
  api_.free(cell_);
  api_.event_destroy(ready_);
  api_.stream_destroy(stream_);
}

void NcclHandle::connect(int ranks, const NcclUniqueId& id, int rank) {
  NcclComm comm = nullptr;
  nccl(api_.comm_init_rank(&comm, ranks, id, rank), "ncclCommInitRank");
  comm_ = comm;
}

NcclComm NcclHandle::comm() const {
  nccl_job_end().throw_if_ended();
  NcclComm comm = comm_;
  if (comm == nullptr) {
    throw SystemError("this NCCL communicator is closed");
  }
  return comm;
}

void NcclHandle::abort() {
  const std::lock_guard lock(mutex_);
  if (NcclComm comm = comm_.exchange(nullptr); comm != nullptr) {
    api_.comm_abort(comm);
  }
}

void NcclHandle::throw_async_error() {
  nccl_job_end().throw_if_ended();
  int query = k_nccl_success;
  int error = k_nccl_success;
  {
    const std::lock_guard lock(mutex_);  // not held while throwing: NcclJobEnd takes it under its own
    if (comm_ != nullptr) {
      query = api_.comm_get_async_error(comm_, &error);
    }
  }
  nccl(query, "ncclCommGetAsyncError");
  nccl(error == k_nccl_in_progress ? k_nccl_success : error, "an NCCL call under way");
}

void NcclHandle::follow_default_stream() const {
  gpu(api_.event_record(ready_, nullptr), "recording an event");
  gpu(api_.stream_wait_event(stream_, ready_, 0), "waiting for an event");
}

void NcclHandle::gpu(int error, const char* what) const {
  if (error != k_gpu_success) {
    throw SystemError(fmt::format("{} failed: {}", what, api_.gpu_error_string(error)));
  }
}

void NcclHandle::nccl(int error, const char* what) const {
  if (error != k_nccl_success) {
    nccl_job_end().throw_if_ended();  // then this error is a consequence of the end
    throw SystemError(fmt::format("{} failed: {} ({})", what, api_.get_error_string(error), api_.name));
  }
}

void NcclJobEnd::add(NcclHandle* handle) {
  const std::lock_guard lock(mutex_);
  handles_.push_back(handle);
}

void NcclJobEnd::remove(NcclHandle* handle) {
  const std::lock_guard lock(mutex_);
  std::erase(handles_, handle);
}

void NcclJobEnd::end(std::string_view reason) {
  const std::lock_guard lock(mutex_);
  if (!reason_) {
    reason_ = reason;
  }
  for (NcclHandle* handle : handles_) {
    handle->abort();
  }
}

void NcclJobEnd::throw_if_ended() {
  const std::lock_guard lock(mutex_);
  if (reason_) {
    throw SystemError(*reason_);
  }
}

}  // namespace commlens
