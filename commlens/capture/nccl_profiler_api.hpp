#pragma once
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

// The binary interface between NCCL and its profiler plug-ins, v1 to v6: a plug-in exports a Plugin under the
// name ncclProfiler_vN, NCCL takes the newest it knows. Sources, all of github.com/NVIDIA/nccl: v1 from
// src/include/nccl_profiler.h of 2.23; v2 (2.24.3), v3 (2.26.2), v4 (2.27.3), v5 (2.28.3) and v6 (2.29.2)
// from src/include/plugin/profiler/profiler_vN.h; event types and states from
// src/include/plugin/nccl_profiler.h. Members that we do not read are there for the places of those that we
// do; a description of an event that we do not ask for is not part of the unions.
namespace commlens::capture::profiler {

using Result = int;
constexpr Result k_success = 0;  // ncclSuccess; NCCL asks plug-ins to return nothing else

enum EventType : std::uint64_t {
  k_group = 1U << 0,
  k_coll = 1U << 1,
  k_p2p = 1U << 2,
  k_kernel_channel = 1U << 6,  // v3
  k_group_api = 1U << 8,       // v5
  k_coll_api = 1U << 9,
  k_p2p_api = 1U << 10,
  k_ce_coll = 1U << 12,  // v6: by copy engines
};

constexpr int k_kernel_channel_stop = 22;  // ncclProfilerKernelChStop, since v4

namespace v1 {
struct Coll {
  const char* comm_name;
  std::uint64_t comm_hash;
  std::uint64_t sequence;
  std::uint8_t func;
  const void* send_buffer;
  void* receive_buffer;
  std::size_t count;
  int root;
  std::uint8_t datatype;
  std::uint32_t op;
  std::size_t traffic_bytes;
  std::uint8_t most_channels;
  std::uint8_t warps;
  std::uint8_t algorithm;
  std::uint8_t protocol;
  int is_collnet;
  int is_nvls;
};
struct P2p {
  const char* comm_name;
  std::uint64_t comm_hash;
  std::uint8_t func;
  void* buffer;
  std::uint8_t datatype;
  std::size_t count;
  int peer;
};
struct Event {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
  };
};
static_assert(offsetof(Event, coll) == 24 && sizeof(Coll) == 96 && offsetof(Coll, traffic_bytes) == 72);
static_assert(offsetof(Coll, func) == 24 && offsetof(Coll, root) == 56 && offsetof(Coll, datatype) == 60);
static_assert(offsetof(P2p, count) == 40 && offsetof(P2p, peer) == 48);
}  // namespace v1

namespace v2 {
struct Coll {
  const char* comm_name;
  std::uint64_t comm_hash;
  std::uint64_t sequence;
  const char* func;
  const void* send_buffer;
  void* receive_buffer;
  std::size_t count;
  int root;
  const char* datatype;
  std::size_t traffic_bytes;
  std::uint8_t most_channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
struct P2p {
  const char* comm_name;
  std::uint64_t comm_hash;
  const char* func;
  void* buffer;
  const char* datatype;
  std::size_t count;
  int peer;
};
struct Event {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
  };
};
static_assert(offsetof(Coll, count) == 48 && offsetof(Coll, datatype) == 64 && sizeof(Coll) == 104);
}  // namespace v2

namespace v3 {
struct Coll {
  const char* comm_name;
  std::uint64_t comm_hash;
  std::uint64_t sequence;
  const char* func;
  const void* send_buffer;
  void* receive_buffer;
  std::size_t count;
  int root;
  const char* datatype;
  std::uint8_t most_channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
using P2p = v2::P2p;
struct KernelChannel {
  std::uint8_t channel;
};
struct Event {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
    KernelChannel kernel_channel;
  };
};
static_assert(sizeof(Coll) == 96);
}  // namespace v3

namespace v4 {
struct Coll {
  std::uint64_t sequence;
  const char* func;
  const void* send_buffer;
  void* receive_buffer;
  std::size_t count;
  int root;
  const char* datatype;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
struct P2p {
  const char* func;
  void* buffer;
  const char* datatype;
  std::size_t count;
  int peer;
  std::uint8_t channels;
};
struct KernelChannel {
  std::uint8_t channel;
  std::uint64_t timer;  // the GPU's globaltimer, ns
};
struct Event {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
    KernelChannel kernel_channel;
  };
};
union State {
  std::size_t transferred;  // states of proxy steps
  std::uint64_t timer;      // k_kernel_channel_stop
};
static_assert(offsetof(Event, coll) == 24 && offsetof(Coll, count) == 32 && offsetof(Coll, datatype) == 48);
static_assert(sizeof(Coll) == 80 && offsetof(P2p, peer) == 32 && offsetof(KernelChannel, timer) == 8);
}  // namespace v4

namespace v5 {
struct CollApi {
  const char* func;
  std::size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool is_captured;
};
struct P2pApi {
  const char* func;
  std::size_t count;
  const char* datatype;
  void* stream;
  bool is_captured;
};
struct Coll {
  std::uint64_t sequence;
  const char* func;
  const void* send_buffer;
  void* receive_buffer;
  std::size_t count;
  int root;
  const char* datatype;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
  void* parent_group;
};
struct P2p {
  const char* func;
  void* buffer;
  const char* datatype;
  std::size_t count;
  int peer;
  std::uint8_t channels;
  void* parent_group;
};
using KernelChannel = v4::KernelChannel;
struct Event {
  std::uint64_t type;
  void* parent;  // of coll and p2p the call of the interface
  int rank;      // of events of the interface 0, whatever the rank (NCCL issue 2300)
  union {
    CollApi coll_api;
    P2pApi p2p_api;
    Coll coll;
    P2p p2p;
    KernelChannel kernel_channel;
  };
};
using State = v4::State;
static_assert(offsetof(Event, coll) == 24 && sizeof(Coll) == 88 && offsetof(P2p, parent_group) == 40);
static_assert(offsetof(CollApi, is_captured) == 40 && offsetof(P2pApi, is_captured) == 32);
}  // namespace v5

namespace v6 {
using v5::Coll;
using v5::CollApi;
using v5::KernelChannel;
using v5::P2p;
using v5::P2pApi;
using v5::State;
struct CeColl {
  std::uint64_t sequence;
  const char* func;
  const void* send_buffer;
  void* receive_buffer;
  std::size_t count;
  int root;
  const char* datatype;
  const char* sync_strategy;
  bool is_synchronised;
  std::uint32_t batch;
  std::uint32_t batches;
  std::uint32_t ce_sequence;
  void* stream;
};
struct Event {
  std::uint64_t type;
  void* parent;
  int rank;
  union {
    CollApi coll_api;
    P2pApi p2p_api;
    Coll coll;
    P2p p2p;
    KernelChannel kernel_channel;
    CeColl ce_coll;
  };
};
static_assert(offsetof(Event, ce_coll) == 24 && offsetof(CeColl, datatype) == 48 && sizeof(CeColl) == 88);
}  // namespace v6

/// ncclProfiler_vN_t. The initial function reports more and more of the communicator.
template <typename Init, typename Event, typename State>
struct Plugin {
  const char* name;
  Init* init;
  Result (*start_event)(void* context, void** handle, Event* event);
  Result (*stop_event)(void* handle);
  Result (*record_event_state)(void* handle, int state, State* arguments);
  Result (*finalize)(void* context);
};
using InitBeforeV4 = Result(void** context, int* mask);
using InitV4 = Result(void** context, int* mask, const char* comm_name, std::uint64_t comm_hash, int nodes,
                      int ranks, int rank, void* logger);
using InitV5 = Result(void** context, std::uint64_t comm_id, int* mask, const char* comm_name, int nodes,
                      int ranks, int rank, void* logger);
using PluginV1 = Plugin<InitBeforeV4, v1::Event, void>;
using PluginV2 = Plugin<InitBeforeV4, v2::Event, void>;
using PluginV3 = Plugin<InitBeforeV4, v3::Event, void>;
using PluginV4 = Plugin<InitV4, v4::Event, v4::State>;
using PluginV5 = Plugin<InitV5, v5::Event, v5::State>;
using PluginV6 = Plugin<InitV5, v6::Event, v6::State>;

}  // namespace commlens::capture::profiler
