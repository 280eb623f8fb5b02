#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "commlens/capture/nccl_calls.hpp"
#include "commlens/capture/nccl_gpu.hpp"
#include "commlens/capture/nccl_shim_comms.hpp"
#include "commlens/capture/nccl_shim_pending.hpp"
#include "commlens/capture/nccl_shim_real.hpp"
#include "commlens/capture/nccl_stream.hpp"

namespace commlens::capture {

/// A call of the program.
struct ShimCall {
  NcclFunction function = NcclFunction::all_reduce;
  std::size_t count = 0;
  int dtype = 0;
  int root_or_peer = 0;
  int reduction = -1;  // ncclRedOp_t; -1: none
  void* comm = nullptr;
  void* stream = nullptr;
  // One for each member, where counts differ; else null.
  const std::size_t* sent = nullptr;
  const std::size_t* received = nullptr;
};

/// What a thread is doing: NCCL's groups belong to threads.
class ShimThread {
 public:
  static ShimThread& of_this();
  /// The next call returns to `caller`.
  ShimThread& from(const void* caller) {
    caller_ = caller;
    return *this;
  }

  /// Makes the call and records it, alone or as part of the group that is open.
  template <typename Real>
  int call(const ShimCall& call, const Real& real);
  /// Makes a call that is not recorded itself, nor what it calls.
  template <typename Real>
  int apart(const Real& real);

  template <typename Real>
  int start_group(const Real& real);
  /// `is_run`: what is in the group is carried out, not only simulated.
  template <typename Real>
  int end_group(const Real& real, bool is_run);

  /// A communicator whose handle is in `*comm`: now, or in a group when that ends.
  struct NewComm {
    void** comm = nullptr;
    NcclId id;
    int rank = 0;
    int size = 0;  // 0: made from another one
    std::uint64_t split = 0;
  };
  void made(const NewComm& comm) noexcept;

 private:
  struct Group {
    std::vector<ShimRecord> records;
    std::vector<NewComm> comms;
  };
  static constexpr std::size_t k_most_in_group = std::size_t{1} << 16;

  Group* group() noexcept;  // null when there is no memory
  void run_group() noexcept;
  void finish_group(int code, bool is_run) noexcept;

  const void* caller_ = nullptr;
  int depth_ = 0;
  bool is_inside_ = false;  // in a function of NCCL, which may call others of ours
  Group* group_ = nullptr;  // of this thread, while it is in one; freed when that ends
};

/// Looks at the oldest calls that are pending, and begins a record; none when the call cannot be described.
/// It returns to `caller`.
ShimRecord begin_record(const ShimCall& call, const void* caller) noexcept;
/// The GPU's work of these calls begins; those of one stream share what is measured.
void open_spans(std::span<ShimRecord> records) noexcept;
/// It is enqueued; `code` is what NCCL returned.
void enqueued(std::span<ShimRecord> records, int code) noexcept;
/// Calls in a group that was not carried out.
void not_carried_out(std::span<ShimRecord> records) noexcept;
template <typename Real>
int ShimThread::apart(const Real& real) {
  const bool was_inside = is_inside_;
  is_inside_ = true;
  const int code = real();
  is_inside_ = was_inside;
  return code;
}

template <typename Real>
int ShimThread::call(const ShimCall& call, const Real& real) {
  if (is_inside_) {
    return real();
  }
  ShimRecord record = begin_record(call, caller_);
  if (depth_ == 0) {
    open_spans({&record, 1});
  }
  const int code = apart(real);
  Group* const open = depth_ > 0 && is_good(code) ? group() : nullptr;
  if (open == nullptr || open->records.size() >= k_most_in_group) {
    enqueued({&record, 1}, code);
    return code;
  }
  try {
    open->records.push_back(record);
  } catch (const std::exception&) {
    enqueued({&record, 1}, code);
  }
  return code;
}

template <typename Real>
int ShimThread::start_group(const Real& real) {
  const int code = apart(real);
  if (!is_inside_ && is_good(code)) {
    ++depth_;
  }
  return code;
}

template <typename Real>
int ShimThread::end_group(const Real& real, bool is_run) {
  if (is_inside_ || depth_ == 0) {
    return apart(real);
  }
  const bool is_outermost = depth_ == 1;
  if (is_outermost && is_run) {
    run_group();
  }
  const int code = apart(real);
  --depth_;
  if (is_outermost) {
    finish_group(code, is_run);
  }
  return code;
}

}  // namespace commlens::capture
