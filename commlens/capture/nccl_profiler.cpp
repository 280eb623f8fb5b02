// libcommlens-nccl-profiler.so: what NCCL calls, for each version of its plug-in interface.
#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "commlens/capture/nccl_events.hpp"
#include "commlens/capture/nccl_export.hpp"
#include "commlens/capture/nccl_process.hpp"
#include "commlens/capture/nccl_profiler_api.hpp"
#include "commlens/capture/nccl_symbols.hpp"

namespace commlens::capture::profiler {
namespace {

/// What NCCL carries along for a communicator. Before v4 the first event says which communicator it is.
struct Context {
  std::atomic<NcclComm*> comm = nullptr;
  std::atomic<bool> is_refused = false;
  std::mutex joining;
};

/// Contexts are used again, never given back: an event may come late.
class Contexts {
 public:
  Context* take() {
    const std::lock_guard guard(mutex_);
    if (free_.empty()) {
      all_.push_back(std::make_unique<Context>());
      free_.reserve(all_.size());  // give_back must not fail
      return all_.back().get();
    }
    Context* const context = free_.back();
    free_.pop_back();
    context->is_refused = false;
    return context;
  }
  void give_back(Context* context) noexcept {
    const std::lock_guard guard(mutex_);
    free_.push_back(context);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Context>> all_;
  std::vector<Context*> free_;
};
Contexts& contexts() {
  static Contexts& only = *new Contexts;
  return only;
}

std::array<std::atomic<NcclEvents*>, NcclProcess::k_most_streams>& all_events() {
  static std::array<std::atomic<NcclEvents*>, NcclProcess::k_most_streams> only = {};
  return only;
}

/// The stream's events; in its turn.
NcclEvents& events_of(NcclStream& stream) {
  std::atomic<NcclEvents*>& events = all_events().at(stream.index());
  if (events.load(std::memory_order_acquire) == nullptr) {
    events.store(new NcclEvents(stream), std::memory_order_release);
  }
  return *events.load(std::memory_order_acquire);
}

/// Runs `action`; memory that is out ends the recording. NCCL is never told.
template <typename Action>
void attempt(const Action& action) noexcept {
  try {
    action();
  } catch (const std::exception&) {
    NcclProcess::close();
  }
}

Result init(void** context, int* mask, int wanted, const std::optional<CommIdentity>& identity) noexcept {
  *context = nullptr;
  NcclProcess* const process = NcclProcess::of_process();
  // All communicators share NCCL's mask, and threads that call read it meanwhile: it never goes through 0.
  std::atomic_ref(*mask).store(process == nullptr ? 0 : wanted, std::memory_order_relaxed);
  if (process == nullptr) {
    return k_success;
  }
  attempt([&] {
    Context* const made = contexts().take();
    if (identity) {
      made->comm = process->join(*identity);
      made->is_refused = made->comm == nullptr;
    }
    *context = made;
  });
  return k_success;
}

Result finalize(void* context) noexcept {
  if (context == nullptr) {
    return k_success;
  }
  auto* const known = static_cast<Context*>(context);
  NcclComm* const comm = known->comm.exchange(nullptr);
  known->is_refused = true;
  if (NcclProcess* const process = NcclProcess::of_process(); process != nullptr && comm != nullptr) {
    process->leave(comm);
  }
  contexts().give_back(known);
  return k_success;
}

/// The communicator of an event; before v4 it may be met here for the first time.
template <typename Descr>
NcclComm* comm_of(NcclProcess& process, Context& context, const Descr& call, int rank) {
  if constexpr (requires { call.comm_hash; }) {
    if (context.comm.load() == nullptr && !context.is_refused) {
      const std::lock_guard guard(context.joining);
      if (context.comm.load() != nullptr || context.is_refused) {
        return context.comm.load();
      }
      // NCCL from 2.27 on does not tell the hash to plug-ins this old; then it is this process's own.
      const auto own = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&context));
      const std::uint64_t comm = call.comm_hash != 0 ? call.comm_hash : own;
      context.comm = process.join({.comm = comm, .rank = rank, .device = current_device()});
      context.is_refused = context.comm.load() == nullptr;
    }
  }
  return context.comm.load();
}

/// v1 numbers functions and types, later versions name them.
std::optional<NcclFunction> function_of(std::uint8_t number) { return nccl_function(int{number}); }
std::optional<NcclFunction> function_of(const char* name) {
  return name == nullptr ? std::nullopt : nccl_function(std::string_view(name));
}
std::optional<DType> dtype_of(std::uint8_t number) { return nccl_dtype(int{number}); }
std::optional<DType> dtype_of(const char* name) {
  return name == nullptr ? std::nullopt : nccl_dtype(std::string_view(name));
}

template <typename Descr>
int root_or_peer(const Descr& call) {
  if constexpr (requires { call.root; }) {
    return call.root;
  } else if constexpr (requires { call.peer; }) {
    return call.peer;
  } else {
    return 0;
  }
}

/// v1 and v2 say how many bytes pass through a rank: in all-gather and reduce-scatter, the whole (NCCL's
/// ncclFuncTrafficPerByte: the size of the communicator, times the bytes of one member).
template <typename Descr>
void learn_size(NcclComm& comm, const Descr& call, const CallSeen& seen) {
  if constexpr (requires { call.traffic_bytes; }) {
    const std::size_t bytes = seen.count * static_cast<std::size_t>(size_of(seen.dtype));
    const bool is_telling =
        seen.function == NcclFunction::all_gather || seen.function == NcclFunction::reduce_scatter;
    if (is_telling && bytes > 0 && call.traffic_bytes % bytes == 0) {
      comm.learn_size(static_cast<int>(std::min<std::size_t>(call.traffic_bytes / bytes, INT32_MAX)));
    }
  }
}

template <typename Descr>
bool is_captured(const Descr& call) {
  if constexpr (requires { call.is_captured; }) {
    return call.is_captured;
  } else {
    return false;
  }
}

template <typename Descr>
EventHandle start(Context& context, const Descr& call, int rank, const void* parent) {
  NcclProcess* const process = NcclProcess::of_process();
  NcclComm* const comm = process == nullptr ? nullptr : comm_of(*process, context, call, rank);
  if (comm == nullptr) {
    return {};
  }
  NcclStream& stream = comm->stream();
  const std::int64_t now = stream.now_ns();
  const NcclStream::Turn turn(stream);
  const std::optional<NcclFunction> function = function_of(call.func);
  const std::optional<DType> dtype = dtype_of(call.datatype);
  if (!function || !dtype) {
    stream.skip("NCCL call of a kind or an element type that is not known");
    return {};
  }
  const CallSeen seen{.function = *function,
                      .dtype = *dtype,
                      .count = call.count,
                      .root_or_peer = root_or_peer(call),
                      .is_captured = is_captured(call)};
  learn_size(*comm, call, seen);
  EventHandle started;
  constexpr bool is_api = requires { call.is_captured; };
  if constexpr (is_api) {
    started = events_of(stream).start_api(*comm, seen);
  } else {
    started = events_of(stream).start_call(*comm, seen, EventHandle::unpack(parent));
  }
  stream.add_cost(now, is_api ? 0 : 1);
  return started;
}

/// Runs `action(events, sequence)` in the turn of the stream that an event belongs to.
template <typename Action>
void with_event(const EventHandle& handle, const Action& action) {
  NcclProcess* const process = NcclProcess::of_process();
  NcclStream* const stream = process == nullptr ? nullptr : process->stream(handle.stream);
  if (stream == nullptr) {
    return;
  }
  const std::int64_t now = stream->now_ns();
  const NcclStream::Turn turn(*stream);
  if (NcclEvents* const events = all_events().at(handle.stream).load(); events != nullptr) {
    action(*events, handle.sequence);
    stream->add_cost(now, 0);
  }
}

template <typename Event>
EventHandle start_kernel(const Event& event) {
  EventHandle started;
  const EventHandle call = EventHandle::unpack(event.parent);
  std::uint64_t timer = 0;
  if constexpr (requires { event.kernel_channel.timer; }) {
    timer = event.kernel_channel.timer;
  }
  if (call.kind == EventHandle::Kind::call) {
    with_event(call, [&](NcclEvents& events, std::uint64_t) { started = events.start_kernel(call, timer); });
  }
  return started;
}

/// The kinds of events that only some versions have.
template <typename Event>
EventHandle start_newer(Context& context, const Event& event) {
  if constexpr (requires { event.kernel_channel; }) {
    if (event.type == k_kernel_channel) {
      return start_kernel(event);
    }
  }
  if constexpr (requires { event.coll_api; }) {
    if (event.type == k_coll_api) {
      return start(context, event.coll_api, event.rank, event.parent);
    }
    if (event.type == k_p2p_api) {
      return start(context, event.p2p_api, event.rank, event.parent);
    }
    if (event.type == k_group_api) {
      return {.kind = EventHandle::Kind::group};
    }
  }
  if constexpr (requires { event.ce_coll; }) {
    if (event.type == k_ce_coll) {
      return start(context, event.ce_coll, event.rank, event.parent);
    }
  }
  return {};
}

template <typename Event>
Result start_event(void* context, void** handle, Event* event) noexcept {
  *handle = nullptr;
  if (context == nullptr || event == nullptr) {
    return k_success;
  }
  attempt([&] {
    Context& known = *static_cast<Context*>(context);
    EventHandle started;
    switch (event->type) {
      case k_group:  // NCCL 2.23 asks for no other event of a group that has no handle
        started.kind = EventHandle::Kind::group;
        break;
      case k_coll:
        started = start(known, event->coll, event->rank, event->parent);
        break;
      case k_p2p:
        started = start(known, event->p2p, event->rank, event->parent);
        break;
      default:
        started = start_newer(known, *event);
        break;
    }
    *handle = started.kind == EventHandle::Kind::none ? nullptr : started.pack();
  });
  return k_success;
}

Result stop_event(void* handle) noexcept {
  attempt([&] {
    const EventHandle event = EventHandle::unpack(handle);
    if (event.kind == EventHandle::Kind::call) {
      with_event(event, [](NcclEvents& events, std::uint64_t sequence) { events.stop_call(sequence); });
    } else if (event.kind == EventHandle::Kind::kernel) {
      with_event(event, [](NcclEvents& events, std::uint64_t sequence) { events.stop_kernel(sequence); });
    }
  });
  return k_success;
}

template <typename State>
void time_kernel(void* handle, const State& arguments) noexcept {
  attempt([&] {
    const EventHandle event = EventHandle::unpack(handle);
    if (event.kind == EventHandle::Kind::kernel) {
      with_event(event, [&](NcclEvents& events, std::uint64_t sequence) {
        events.time_kernel(sequence, arguments.timer);
      });
    }
  });
}

template <typename State>
Result record_event_state(void* handle, int state, State* arguments) noexcept {
  if constexpr (requires { arguments->timer; }) {
    if (state == k_kernel_channel_stop && arguments != nullptr) {
      time_kernel(handle, *arguments);
    }
  }
  return k_success;
}

constexpr int k_calls = k_group | k_coll | k_p2p;
constexpr int k_calls_and_kernels = k_calls | k_kernel_channel;
constexpr int k_calls_kernels_and_api = k_calls_and_kernels | k_coll_api | k_p2p_api;
constexpr const char* k_name = "commlens";

template <int Mask>
Result init_before_v4(void** context, int* events) {
  return init(context, events, Mask, std::nullopt);
}

// NOLINTBEGIN(readability-function-size): NCCL says with how many arguments they are called
Result init_v4(void** context, int* events, const char* /*comm_name*/, std::uint64_t comm_hash, int /*nodes*/,
               int ranks, int rank, void* /*logger*/) {
  return init(context, events, k_calls_and_kernels,
              CommIdentity{.comm = comm_hash, .rank = rank, .size = ranks, .device = current_device()});
}

template <int Mask>
Result init_since_v5(void** context, std::uint64_t comm_id, int* events, const char* /*comm_name*/,
                     int /*nodes*/, int ranks, int rank, void* /*logger*/) {
  return init(context, events, Mask,
              CommIdentity{.comm = comm_id, .rank = rank, .size = ranks, .device = current_device()});
}
// NOLINTEND(readability-function-size)

}  // namespace
}  // namespace commlens::capture::profiler

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's
namespace nccl = commlens::capture::profiler;

COMMLENS_NCCL_EXPORT const nccl::PluginV1 ncclProfiler_v1;
COMMLENS_NCCL_EXPORT const nccl::PluginV2 ncclProfiler_v2;
COMMLENS_NCCL_EXPORT const nccl::PluginV3 ncclProfiler_v3;
COMMLENS_NCCL_EXPORT const nccl::PluginV4 ncclProfiler_v4;
COMMLENS_NCCL_EXPORT const nccl::PluginV5 ncclProfiler_v5;
COMMLENS_NCCL_EXPORT const nccl::PluginV6 ncclProfiler_v6;

const nccl::PluginV1 ncclProfiler_v1 = {
    nccl::k_name,      &nccl::init_before_v4<nccl::k_calls>, &nccl::start_event<nccl::v1::Event>,
    &nccl::stop_event, &nccl::record_event_state<void>,      &nccl::finalize};
const nccl::PluginV2 ncclProfiler_v2 = {
    nccl::k_name,      &nccl::init_before_v4<nccl::k_calls>, &nccl::start_event<nccl::v2::Event>,
    &nccl::stop_event, &nccl::record_event_state<void>,      &nccl::finalize};
const nccl::PluginV3 ncclProfiler_v3 = {nccl::k_name,
                                        &nccl::init_before_v4<nccl::k_calls_and_kernels>,
                                        &nccl::start_event<nccl::v3::Event>,
                                        &nccl::stop_event,
                                        &nccl::record_event_state<void>,
                                        &nccl::finalize};
const nccl::PluginV4 ncclProfiler_v4 = {nccl::k_name,
                                        &nccl::init_v4,
                                        &nccl::start_event<nccl::v4::Event>,
                                        &nccl::stop_event,
                                        &nccl::record_event_state<nccl::v4::State>,
                                        &nccl::finalize};
const nccl::PluginV5 ncclProfiler_v5 = {nccl::k_name,
                                        &nccl::init_since_v5<nccl::k_calls_kernels_and_api>,
                                        &nccl::start_event<nccl::v5::Event>,
                                        &nccl::stop_event,
                                        &nccl::record_event_state<nccl::v5::State>,
                                        &nccl::finalize};
const nccl::PluginV6 ncclProfiler_v6 = {nccl::k_name,
                                        &nccl::init_since_v5<nccl::k_calls_kernels_and_api | nccl::k_ce_coll>,
                                        &nccl::start_event<nccl::v6::Event>,
                                        &nccl::stop_event,
                                        &nccl::record_event_state<nccl::v6::State>,
                                        &nccl::finalize};
// NOLINTEND(readability-identifier-naming)
