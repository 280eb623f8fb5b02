#include "plugin_host.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>

#include "nccl_abi.hpp"

namespace host {
namespace {

std::size_t type_size(const char* name) {
  const struct {
    const char* name;
    std::size_t size;
  } sizes[] = {{"ncclInt8", 1},    {"Unknown", 1},      {"ncclInt32", 4},     {"ncclUint32", 4},
               {"ncclInt64", 8},   {"ncclUint64", 8},   {"ncclFloat16", 2},   {"ncclFloat32", 4},
               {"ncclFloat64", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}};
  for (const auto& [known, size] : sizes) {
    if (std::strcmp(known, name) == 0) {
      return size;
    }
  }
  std::abort();
}

bool is_p2p(const Call& call) {
  return std::strcmp(call.func, "Send") == 0 || std::strcmp(call.func, "Recv") == 0;
}

/// NCCL gathers and broadcasts bytes (enqueue.cc, collTaskAppend).
Call as_task(Call call) {
  if (std::strcmp(call.func, "AllGather") == 0 || std::strcmp(call.func, "Broadcast") == 0) {
    call.count *= type_size(call.dtype);
    call.dtype = "ncclInt8";
  }
  return call;
}

/// enqueue.cc, ncclFuncTrafficPerByte.
std::size_t traffic(const Comm& comm, const Call& task) {
  const std::size_t bytes = task.count * type_size(task.dtype);
  if (std::strcmp(task.func, "AllReduce") == 0) {
    return 2 * bytes;
  }
  const bool is_whole =
      std::strcmp(task.func, "AllGather") == 0 || std::strcmp(task.func, "ReduceScatter") == 0;
  return is_whole ? bytes * static_cast<std::size_t>(comm.size) : bytes;
}

std::uint8_t number_of_func(const char* func) {
  const char* const names[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                               "AllReduce", "SendRecv", "Send",      "Recv"};
  for (std::uint8_t number = 0; number < 8; ++number) {
    if (std::strcmp(names[number], func) == 0) {
      return number;
    }
  }
  std::abort();
}

std::uint8_t number_of_type(const char* dtype) {
  const char* const names[] = {"ncclInt8",   "Unknown",     "ncclInt32",   "ncclUint32",  "ncclInt64",
                               "ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
  for (std::uint8_t number = 0; number < 10; ++number) {
    if (std::strcmp(names[number], dtype) == 0) {
      return number;
    }
  }
  std::abort();
}

void check(int result) {
  if (result != 0) {
    std::fprintf(stderr, "the plug-in returned %d\n", result);
    std::exit(1);
  }
}

void logger(int, unsigned long, const char*, int, const char*, ...) {}

/// An event of NCCL's, in memory that held something else before, as on a stack.
template <typename Event>
Event fresh(std::uint64_t type, int rank) {
  Event event;
  std::memset(static_cast<void*>(&event), 0xa5, sizeof event);
  event.type = static_cast<decltype(event.type)>(type);
  event.parentObj = nullptr;
  event.rank = rank;
  return event;
}

template <int V, typename Event, typename State, typename Init>
class PluginOf : public Plugin {
 public:
  explicit PluginOf(const abi::Table<Init, Event, State>* table) : table_(table) { version = V; }

  Comm join(std::uint64_t id, int rank, int size) override {
    Comm comm{id, rank, size, nullptr};
    if constexpr (V <= 3) {
      check(table_->init(&comm.context, &mask));
    } else if constexpr (V == 4) {
      check(table_->init(&comm.context, &mask, "name", id, 1, size, rank, &logger));
    } else {
      check(table_->init(&comm.context, id, &mask, "name", 1, size, rank, &logger));
    }
    return comm;
  }
  void leave(Comm& comm) override { check(table_->finalize(comm.context)); }

  void* start_group(Comm& comm) override {
    Event event = fresh<Event>(abi::group, 0);
    return start(comm, event);
  }
  void* start_group_api(Comm& comm) override {
    if constexpr (V >= 5) {
      Event event = fresh<Event>(abi::groupApi, 0);
      event.groupApi = {false, 1};
      return start(comm, event);
    }
    return nullptr;
  }
  void* start_api(Comm& comm, const Call& call, void* group) override {
    if constexpr (V >= 5) {
      Event event = fresh<Event>(is_p2p(call) ? abi::p2pApi : abi::collApi, 0);  // NCCL issue 2300: always 0
      event.parentObj = group;
      if (is_p2p(call)) {
        event.p2pApi = {call.func, call.count, call.dtype, nullptr, call.is_captured};
      } else {
        event.collApi = {call.func, call.count, call.dtype, call.root_or_peer, nullptr, call.is_captured};
      }
      return start(comm, event);
    }
    return nullptr;
  }
  void* start_task(Comm& comm, const Call& called, void* api, void* group) override {
    const Call call = as_task(called);
    Event event = fresh<Event>(is_p2p(call) ? abi::p2p : abi::coll, comm.rank);
    event.parentObj = V >= 5 ? api : group;
    if constexpr (V == 1) {
      if (is_p2p(call)) {
        event.p2p = {
            "name",     comm.id,          number_of_func(call.func), nullptr, number_of_type(call.dtype),
            call.count, call.root_or_peer};
      } else {
        event.coll = {"name",
                      comm.id,
                      7,
                      number_of_func(call.func),
                      nullptr,
                      nullptr,
                      call.count,
                      call.root_or_peer,
                      number_of_type(call.dtype),
                      0,
                      traffic(comm, call),
                      2,
                      4,
                      1,
                      2,
                      0,
                      0};
      }
    } else if constexpr (V <= 3) {
      if (is_p2p(call)) {
        event.p2p = {"name", comm.id, call.func, nullptr, call.dtype, call.count, call.root_or_peer};
      } else if constexpr (V == 2) {
        event.coll = {"name",     comm.id,
                      7,          call.func,
                      nullptr,    nullptr,
                      call.count, call.root_or_peer,
                      call.dtype, traffic(comm, call),
                      2,          4,
                      "RING",     "LL"};
      } else {
        event.coll = {"name",     comm.id, 7, call.func, nullptr, nullptr, call.count, call.root_or_peer,
                      call.dtype, 2,       4, "RING",    "LL"};
      }
    } else if (is_p2p(call)) {
      event.p2p.func = call.func;
      event.p2p.datatype = call.dtype;
      event.p2p.count = call.count;
      event.p2p.peer = call.root_or_peer;
    } else {
      event.coll.func = call.func;
      event.coll.count = call.count;
      event.coll.root = call.root_or_peer;
      event.coll.datatype = call.dtype;
      event.coll.nChannels = 2;
      event.coll.algo = "NVLS_TREE";
      event.coll.proto = "SIMPLE";
    }
    if constexpr (V >= 5) {
      (is_p2p(call) ? event.p2p.parentGroup : event.coll.parentGroup) = group;
    }
    return start(comm, event);
  }
  void* start_ce(Comm& comm, const Call& call, void* api) override {
    if constexpr (V >= 6) {
      Event event = fresh<Event>(abi::ceColl, comm.rank);
      event.parentObj = api;
      event.ceColl = {7,     call.func, nullptr, nullptr, call.count, call.root_or_peer, call.dtype, "MC",
                      false, 1,         1,       1,       nullptr};
      return start(comm, event);
    }
    return nullptr;
  }
  void* start_kernel(Comm& comm, void* task, int channel, std::uint64_t timer) override {
    if constexpr (V >= 3) {
      if ((mask & abi::kernelCh) == 0) {
        return nullptr;
      }
      Event event = fresh<Event>(abi::kernelCh, 0);
      event.parentObj = task;
      event.kernelCh.channelId = static_cast<std::uint8_t>(channel);
      if constexpr (V >= 4) {
        event.kernelCh.pTimer = timer;
      }
      return start(comm, event);
    }
    return nullptr;
  }
  void stop_kernel(void* kernel, std::uint64_t timer) override {
    if (kernel == nullptr) {  // as NCCL
      return;
    }
    if constexpr (V >= 4) {
      State state;
      std::memset(&state, 0xa5, sizeof state);
      state.kernelCh.pTimer = timer;
      check(table_->recordEventState(kernel, abi::kernelChStop, &state));
    }
    stop(kernel);
  }
  void stop(void* handle) override {
    if (handle != nullptr) {  // as NCCL
      check(table_->stopEvent(handle));
    }
  }

 private:
  void* start(Comm& comm, Event& event) {
    void* handle = reinterpret_cast<void*>(0xdead);  // the old content must be cleared
    check(table_->startEvent(comm.context, &handle, &event));
    return handle;
  }
  const abi::Table<Init, Event, State>* table_;
};

template <int V, typename Event, typename State, typename Init>
Plugin* opened(void* library) {
  char name[] = "ncclProfiler_v0";
  name[sizeof name - 2] = static_cast<char>('0' + V);
  auto* const table = static_cast<const abi::Table<Init, Event, State>*>(dlsym(library, name));
  if (table == nullptr || table->name == nullptr || std::strcmp(table->name, "commlens") != 0) {
    std::fprintf(stderr, "no %s\n", name);
    std::exit(1);
  }
  return new PluginOf<V, Event, State, Init>(table);
}

}  // namespace

Plugin* Plugin::open(int version) {
  const char* const path = std::getenv("NCCL_PROFILER_PLUGIN");
  void* const library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "no plug-in: %s\n", path == nullptr ? "NCCL_PROFILER_PLUGIN is not set" : dlerror());
    std::exit(1);
  }
  using namespace abi;
  switch (version) {
    case 1:
      return opened<1, Event1, StateOld, InitOld>(library);
    case 2:
      return opened<2, Event2, StateOld, InitOld>(library);
    case 3:
      return opened<3, Event3, StateOld, InitOld>(library);
    case 4:
      return opened<4, Event4, StateNew, Init4>(library);
    case 5:
      return opened<5, Event5, StateNew, Init5>(library);
    default:
      return opened<6, Event6, StateNew, Init5>(library);
  }
}

}  // namespace host
