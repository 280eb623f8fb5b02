#include "commlens/capture/nccl_shim_comms.hpp"

#include <atomic>
#include <exception>
#include <span>

#include <unistd.h>

#include "commlens/capture/nccl_process.hpp"
#include "commlens/capture/nccl_shim_real.hpp"

namespace commlens::capture {
namespace {

constexpr std::uint64_t k_hash_start = 0xcbf29ce484222325U;

/// FNV-1a.
std::uint64_t mixed(std::uint64_t hash, std::span<const std::byte> bytes) {
  constexpr std::uint64_t prime = 0x100000001b3U;
  for (const std::byte byte : bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * prime;
  }
  return hash;
}

template <typename Value>
std::uint64_t mixed_with(std::uint64_t hash, const Value& value) {
  return mixed(hash, std::as_bytes(std::span(&value, 1)));
}

/// A number that no other communicator of the job has.
std::uint64_t own_number() {
  static std::atomic<std::uint64_t> count = 0;
  std::uint64_t hash = mixed_with(k_hash_start, getpid());
  const std::string boot = boot_id();
  hash = mixed(hash, std::as_bytes(std::span(boot)));
  return mixed_with(mixed_with(hash, Clock::of_process().now_ns()), ++count);
}

}  // namespace

ShimComms& ShimComms::of_process() {
  static ShimComms& only = *new ShimComms;  // other threads may call when the process ends
  return only;
}

void ShimComms::add(void* comm, const CommIdentity& identity) {
  if (comm == nullptr || NcclProcess::of_process() == nullptr) {
    return;
  }
  Known& known = comms_[comm];
  leave(known);  // the handle of one that is gone, called once more and met again here
  known = {.identity = identity};
  join(comm, known);
}

/// A communicator that does not block may not know its rank yet; it is asked again at its first call.
void ShimComms::join(void* comm, Known& known) {
  NcclProcess* const process = NcclProcess::of_process();
  if (process == nullptr || known.joined != nullptr || known.is_refused) {
    return;
  }
  CommIdentity& identity = known.identity;
  if (identity.device < 0) {
    call_real(COMMLENS_NCCL_REAL(ncclCommCuDevice), comm, &identity.device);
  }
  if (identity.size == 0 &&
      (call_real(COMMLENS_NCCL_REAL(ncclCommCount), comm, &identity.size) != k_nccl_success ||
       call_real(COMMLENS_NCCL_REAL(ncclCommUserRank), comm, &identity.rank) != k_nccl_success)) {
    identity.size = 0;
    return;
  }
  known.joined = process->join(identity);
  known.is_refused = known.joined == nullptr;
}

void ShimComms::leave(Known& known) noexcept {
  if (NcclProcess* const process = NcclProcess::of_process(); process != nullptr && known.joined != nullptr) {
    process->leave(known.joined);
  }
}

void ShimComms::made(void* comm, const NcclId& id, int rank, int size) noexcept {
  if (NcclProcess::of_process() == nullptr) {
    return;
  }
  try {
    const std::lock_guard guard(mutex_);
    add(comm, {.comm = mixed_with(k_hash_start, id), .rank = rank, .size = size});
  } catch (const std::exception&) {
    NcclProcess::stop();
  }
}

void ShimComms::made_all(void* const* comms, int count) noexcept {
  if (NcclProcess::of_process() == nullptr) {
    return;
  }
  try {
    const std::lock_guard guard(mutex_);
    const std::uint64_t number = own_number();
    for (int rank = 0; rank < count; ++rank) {
      add(comms[rank], {.comm = number, .rank = rank, .size = count});
    }
  } catch (const std::exception&) {
    NcclProcess::stop();
  }
}

std::uint64_t ShimComms::next_split(void* parent, int color) noexcept {
  if (NcclProcess::of_process() == nullptr) {
    return 0;
  }
  const std::lock_guard guard(mutex_);
  const auto found = comms_.find(parent);
  if (found == comms_.end()) {
    return 0;
  }
  Known& known = found->second;
  return mixed_with(mixed_with(mixed_with(k_hash_start, known.identity.comm), ++known.splits), color);
}

void ShimComms::made_from(void* comm, std::uint64_t split) noexcept {
  if (NcclProcess::of_process() == nullptr) {
    return;
  }
  try {
    const std::lock_guard guard(mutex_);
    add(comm, {.comm = split != 0 ? split : own_number(), .is_agreed = split != 0});
  } catch (const std::exception&) {
    NcclProcess::stop();
  }
}

void ShimComms::gone(void* comm) noexcept {
  if (NcclProcess::of_process() == nullptr) {  // a child of fork may have inherited the mutex locked
    return;
  }
  const std::lock_guard guard(mutex_);
  const auto found = comms_.find(comm);
  if (found == comms_.end()) {
    return;
  }
  leave(found->second);
  comms_.erase(found);
}

std::shared_ptr<NcclComm> ShimComms::find(void* comm) noexcept {
  try {
    const std::lock_guard guard(mutex_);
    const auto found = comms_.find(comm);
    if (found == comms_.end()) {
      if (comm != nullptr) {
        add(comm, {.comm = own_number()});  // made by a function that is not ours
        return comms_[comm].joined;
      }
      return nullptr;
    }
    join(comm, found->second);
    return found->second.joined;
  } catch (const std::exception&) {
    NcclProcess::stop();
    return nullptr;
  }
}

}  // namespace commlens::capture
