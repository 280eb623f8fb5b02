#pragma once
#include <cstdint>
#include <string>

// A stand-in for NCCL: it calls a profiler plug-in as NCCL of the version that brought each interface does.
namespace host {

/// A call of the program.
struct Call {
  const char* func = "AllReduce";  // as ncclFuncToString names it
  std::size_t count = 0;
  const char* dtype = "ncclFloat32";
  int root_or_peer = 0;
  bool is_captured = false;
};

/// A communicator, as one member has it.
struct Comm {
  std::uint64_t id = 0;
  int rank = 0;
  int size = 0;
  void* context = nullptr;
};

/// The handles of a call.
struct Started {
  void* api = nullptr;
  void* task = nullptr;
};

/// One version of the interface.
class Plugin {
 public:
  virtual ~Plugin() = default;
  /// Of the library NCCL_PROFILER_PLUGIN names; exits when it is not there.
  static Plugin* open(int version);

  virtual Comm join(std::uint64_t id, int rank, int size) = 0;
  virtual void leave(Comm& comm) = 0;
  virtual void* start_group(Comm& comm) = 0;
  /// The program's group, which a call alone has too, and its calls; nothing before v5.
  virtual void* start_group_api(Comm& comm) = 0;
  virtual void* start_api(Comm& comm, const Call& call, void* group = nullptr) = 0;
  /// NCCL enqueues what was called.
  virtual void* start_task(Comm& comm, const Call& call, void* api, void* group) = 0;
  virtual void* start_ce(Comm& comm, const Call& call, void* api) = 0;
  virtual void* start_kernel(Comm& comm, void* task, int channel, std::uint64_t timer) = 0;
  virtual void stop_kernel(void* kernel, std::uint64_t timer) = 0;
  virtual void stop(void* handle) = 0;
  bool has_kernels() const { return version >= 3; }
  bool has_timers() const { return version >= 4; }
  bool has_api() const { return version >= 5; }
  int version = 0;
  int mask = 0;
};

}  // namespace host
