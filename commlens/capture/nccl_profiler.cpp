// libcommlens-nccl-profiler.so: what NCCL calls, for each version of its plug-in interface.
#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "commlens/capture/environment.hpp"
#include "commlens/capture/nccl_events.hpp"
#include "commlens/capture/nccl_export.hpp"
#include "commlens/capture/nccl_process.hpp"
#include "commlens/capture/nccl_profiler_api.hpp"
#include "commlens/capture/nccl_profiler_calls.hpp"
#include "commlens/capture/nccl_symbols.hpp"

namespace commlens::capture::profiler {
namespace {

/// What NCCL carries along for a communicator. Before v4 the first event says which communicator it is.
struct Context {
  std::mutex mutex;  // of what follows
  std::shared_ptr<NcclComm> comm;
  bool is_refused = false;
};

/// Contexts are kept to the end and used once: an event may come late, while another thread aborts the
/// communicator.
class Contexts {
 public:
  Context* add() {
    const std::lock_guard guard(mutex_);
    return &all_.emplace_back();
  }

 private:
  std::mutex mutex_;
  std::deque<Context> all_;
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

/// Runs `action`; memory that is out stops the recording. NCCL is never informed.
template <typename Action>
void attempt(const Action& action) noexcept {
  try {
    action();
  } catch (const std::exception&) {
    NcclProcess::stop();
  }
}

bool is_light() {
  static const bool only = asked_light_profiler();
  return only;
}

Result init(void** context, int* mask, int wanted, const std::optional<CommIdentity>& identity) noexcept {
  *context = nullptr;
  NcclProcess* const process = NcclProcess::of_process();
  const int events = is_light() ? wanted & ~static_cast<int>(k_kernel_channel) : wanted;
  // All communicators share NCCL's mask, and threads that call read it meanwhile: it never goes through 0.
  std::atomic_ref(*mask).store(process == nullptr ? 0 : events, std::memory_order_relaxed);
  if (process == nullptr) {
    return k_success;
  }
  attempt([&] {
    Context* const made = contexts().add();
    if (identity) {
      const std::lock_guard guard(made->mutex);
      made->comm = process->join(*identity);
      made->is_refused = made->comm == nullptr;
    }
    *context = made;
  });
  return k_success;
}

/// A communicator that ends has no kernels any more.
void finish_calls_of(const NcclComm& comm) noexcept {
  attempt([&] {
    NcclStream& stream = comm.stream();
    const NcclStream::Turn turn(stream);
    if (NcclEvents* const events = all_events().at(stream.index()).load(std::memory_order_acquire)) {
      events->finish_calls_of(comm.identity().comm);
    }
  });
}

Result finalize(void* context) noexcept {
  if (context == nullptr) {
    return k_success;
  }
  NcclProcess* const process = NcclProcess::of_process();
  if (process == nullptr) {  // a child of fork may have inherited the mutex locked
    return k_success;
  }
  auto* const known = static_cast<Context*>(context);
  std::shared_ptr<NcclComm> comm;
  {
    const std::lock_guard guard(known->mutex);
    comm.swap(known->comm);
    known->is_refused = true;
  }
  if (comm != nullptr) {
    finish_calls_of(*comm);
    process->leave(comm);
  }
  return k_success;
}

/// The communicator of an event; before v4 it may be met here for the first time.
template <typename Descr>
std::shared_ptr<NcclComm> comm_of(NcclProcess& process, Context& context, const Descr& call, int rank) {
  const std::lock_guard guard(context.mutex);
  if constexpr (requires { call.comm_hash; }) {
    if (context.comm == nullptr && !context.is_refused) {
      // NCCL from 2.27 on does not report the hash to plug-ins this old; then it is this process's own.
      const auto own = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&context));
      const std::uint64_t comm = call.comm_hash != 0 ? call.comm_hash : own;
      context.comm = process.join({.comm = comm, .rank = rank, .device = current_device()});
      context.is_refused = context.comm == nullptr;
    }
  }
  return context.comm;
}

template <typename Descr, typename Event>
EventHandle start_in(NcclComm& comm, const Descr& call, const Event& event, std::int64_t start_ns) {
  NcclStream& stream = comm.stream();
  const NcclStream::Turn turn(stream);
  const std::optional<NcclFunction> function = function_of(call.func);
  const std::optional<DType> dtype = dtype_of(call.datatype);
  if (!function || !dtype) {
    stream.skip("NCCL call of a kind or an element type that is not known");
    return {};
  }
  const CallSeen seen{.arguments = arguments_of(call, *function, *dtype),
                      .is_captured = is_captured(call),
                      .has_kernels = k_has_kernels<Descr, Event> && !is_light()};
  learn_size(comm, call, seen);
  EventHandle started;
  if constexpr (k_is_api<Descr>) {
    const EventHandle group = EventHandle::unpack(event.parent);
    started =
        events_of(stream).start_api(comm, seen, group.kind == EventHandle::Kind::group ? group.sequence : 0);
  } else {
    started = events_of(stream).start_call(comm, seen, EventHandle::unpack(event.parent));
  }
  stream.add_cost(start_ns, k_is_api<Descr> ? 0 : 1);
  return started;
}

/// `context` is null where there was no memory for it.
template <typename Descr, typename Event>
EventHandle start(Context* context, const Descr& call, const Event& event) {
  NcclProcess* const process = NcclProcess::of_process();
  if (process == nullptr) {
    return {};
  }
  const std::int64_t now = Clock::of_process().now_ns();
  try {
    const std::shared_ptr<NcclComm> comm =
        process->is_stopped() || context == nullptr ? nullptr : comm_of(*process, *context, call, event.rank);
    if (comm != nullptr) {
      return start_in(*comm, call, event, now);
    }
  } catch (const std::exception&) {
    NcclProcess::stop();
  }
  if (!k_is_api<Descr>) {
    process->count_lost();
  }
  return {};
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

/// A group of the program has ended; its calls may be of several streams.
void stop_group(std::uint64_t group) {
  for (std::uint32_t stream = 0; stream < all_events().size(); ++stream) {
    if (all_events().at(stream).load(std::memory_order_acquire) != nullptr) {
      with_event({.kind = EventHandle::Kind::group, .stream = stream},
                 [&](NcclEvents& events, std::uint64_t) { events.stop_group(group); });
    }
  }
}

/// All calls whose end has not been reported.
void finish_calls() noexcept {
  attempt([] {
    for (std::uint32_t stream = 0; stream < all_events().size(); ++stream) {
      with_event({.kind = EventHandle::Kind::call, .stream = stream},
                 [](NcclEvents& events, std::uint64_t) { events.finish_calls(); });
    }
  });
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
EventHandle start_newer(Context* context, const Event& event) {
  if constexpr (requires { event.kernel_channel; }) {
    if (event.type == k_kernel_channel) {
      return start_kernel(event);
    }
  }
  if constexpr (requires { event.coll_api; }) {
    if (event.type == k_coll_api) {
      return start(context, event.coll_api, event);
    }
    if (event.type == k_p2p_api) {
      return start(context, event.p2p_api, event);
    }
    if (event.type == k_group_api) {
      static std::atomic<std::uint64_t> groups = 0;
      return {.kind = EventHandle::Kind::group, .sequence = ++groups};
    }
  }
  if constexpr (requires { event.ce_coll; }) {
    if (event.type == k_ce_coll) {
      return start(context, event.ce_coll, event);
    }
  }
  return {};
}

template <typename Event>
Result start_event(void* context, void** handle, Event* event) noexcept {
  *handle = nullptr;
  if (event == nullptr) {
    return k_success;
  }
  attempt([&] {
    auto* const known = static_cast<Context*>(context);
    EventHandle started;
    switch (event->type) {
      case k_group:  // NCCL 2.23 asks for no other event of a group that has no handle
        started.kind = EventHandle::Kind::group;
        break;
      case k_coll:
        started = start(known, event->coll, *event);
        break;
      case k_p2p:
        started = start(known, event->p2p, *event);
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
    } else if (event.kind == EventHandle::Kind::group && event.sequence != 0) {
      stop_group(event.sequence);
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

namespace {

/// Runs before the recording is closed (nccl_process.cpp).
__attribute__((destructor)) void finish_calls_when_the_process_ends() { nccl::finish_calls(); }

}  // namespace
