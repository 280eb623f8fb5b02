#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "commlens/capture/nccl_comm.hpp"

namespace commlens::capture {

/// ncclUniqueId, which is passed by value.
struct NcclId {
  std::array<char, 128> bytes = {};
};

/// The communicators of the program, by the handles that NCCL has given out.
class ShimComms {
 public:
  static ShimComms& of_process();

  /// A communicator made from an id, as one of its members.
  void made(void* comm, const NcclId& id, int rank, int size) noexcept;
  /// All members of a communicator of this process.
  void made_all(void* const* comms, int count) noexcept;
  /// The same for all members that split or shrink `parent` for the n-th time and give the same colour.
  std::uint64_t next_split(void* parent, int color) noexcept;
  /// A communicator of which only the handle is known yet, and what next_split reported.
  void made_from(void* comm, std::uint64_t split) noexcept;
  void gone(void* comm) noexcept;

  /// The communicator as it is recorded; null when it is not. The caller holds on to it while it uses it.
  std::shared_ptr<NcclComm> find(void* comm) noexcept;

 private:
  struct Known {
    CommIdentity identity;
    std::shared_ptr<NcclComm> joined;
    bool is_refused = false;
    std::uint64_t splits = 0;
  };
  void add(void* comm, const CommIdentity& identity);
  void join(void* comm, Known& known);
  static void leave(Known& known) noexcept;

  std::mutex mutex_;
  std::unordered_map<void*, Known> comms_;
};

}  // namespace commlens::capture
