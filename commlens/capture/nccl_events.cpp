#include "commlens/capture/nccl_events.hpp"

#include <algorithm>
#include <chrono>

namespace commlens::capture {
namespace {

constexpr unsigned k_kind_bits = 3;
constexpr unsigned k_stream_bits = 6;
static_assert(NcclEvents::k_most == std::size_t{1} << 14, "a power of two: sequences wrap around");

using std::chrono::nanoseconds;

/// Whether two descriptions mean the same buffers. That of a send or receive in the interface has none.
bool is_same_message(const RecordedCall& api, const RecordedCall& call) {
  return api.name == NameId{} || (api.name == call.name && api.group == call.group && api.root == call.root &&
                                  api.input * api.dtype == call.input * call.dtype &&
                                  api.output * api.dtype == call.output * call.dtype);
}

}  // namespace

void* EventHandle::pack() const {
  const std::uint64_t bits = sequence << (k_kind_bits + k_stream_bits) |
                             static_cast<std::uint64_t>(stream) << k_kind_bits |
                             static_cast<std::uint64_t>(kind);
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(bits));  // NOLINT(performance-no-int-to-ptr)
}

EventHandle EventHandle::unpack(const void* handle) {
  const auto bits = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(handle));
  const std::uint64_t kind = bits & ((1U << k_kind_bits) - 1);
  return {.kind = kind <= static_cast<std::uint64_t>(Kind::kernel) ? static_cast<Kind>(kind) : Kind::none,
          .stream = static_cast<std::uint32_t>(bits >> k_kind_bits & ((1U << k_stream_bits) - 1)),
          .sequence = bits >> (k_kind_bits + k_stream_bits)};
}

NcclEvents::NcclEvents(NcclStream& stream) : stream_(stream), events_(k_most) {}

NcclEvents::Event& NcclEvents::add() {
  const std::uint64_t sequence = next_++;
  Event& event = events_[sequence % k_most];
  event = {.sequence = sequence, .position = stream_.position(), .issued_ns = stream_.now_ns()};
  return event;
}

NcclEvents::Event* NcclEvents::find(std::uint64_t sequence) {
  Event& event = events_[sequence % k_most];
  return sequence != 0 && event.sequence == sequence ? &event : nullptr;
}

EventHandle NcclEvents::start_api(NcclComm& comm, const CallSeen& seen, std::uint64_t group) {
  const bool has_peer =
      seen.arguments.function == NcclFunction::send || seen.arguments.function == NcclFunction::recv;
  std::optional<RecordedCall> call;
  if (!has_peer) {  // a send or receive does not say its peer here
    call = comm.call(seen.arguments);
    if (!call) {
      stream_.skip("call with arguments out of range");
      return {};
    }
  }
  Event& event = add();
  event.is_captured = seen.is_captured;
  event.group = group;
  if (call) {
    event.call = *call;
    if (!seen.is_captured) {
      event.slot = stream_.recorder().begin(*call, event.issued_ns);
      if (group != 0 && call->kind == CommKind::broadcast) {
        if (quiet_.size() == k_most) {  // of groups whose end is not reported
          quiet_.clear();
        }
        quiet_.push_back(event.sequence);
      }
    }
  }
  return {EventHandle::Kind::api, stream_.index(), event.sequence};
}

EventHandle NcclEvents::start_call(NcclComm& comm, const CallSeen& seen, const EventHandle& parent) {
  Event* api = parent.kind == EventHandle::Kind::api ? find(parent.sequence) : nullptr;
  std::optional<RecordedCall> call = comm.call(seen.arguments);
  if (!call) {
    stream_.skip("call with arguments out of range");
    return {};
  }
  const bool is_first = api != nullptr && !api->is_taken && !api->is_captured;
  Event& event = add();  // which may be the place of a very old api event
  api = api != nullptr ? find(parent.sequence) : nullptr;
  // NCCL gathers and broadcasts bytes, whatever it is asked for; only the call of the interface has the type.
  // A call of copy engines may name the interface's call before it as its parent.
  const bool is_its_api = api != nullptr && is_same_message(api->call, *call);
  if (is_its_api && api->call.name == call->name) {
    call = api->call;
    call->algorithm = seen.arguments.algorithm;
    call->protocol = seen.arguments.protocol;
  }
  event.call = *call;
  // The GPU counts a message of a rank to itself as work, NCCL's proxies do not (NCCL 2.28, enqueue.cc,
  // addP2pToPlan: nProxyOps; device/common.h, profiler): from the first one on, the kernel that is reported
  // for a call is that of an earlier call.
  if (comm.is_to_itself(seen.arguments)) {
    comm.misnumber_kernels();
  }
  event.is_misnumbered = comm.has_misnumbered_kernels();
  if (is_its_api && is_first) {
    api->is_taken = true;
    event.issued_ns = api->issued_ns;
    event.position = api->position;
    event.slot = api->slot;
  }
  if (event.slot == Recorder::k_dropped) {
    event.slot = stream_.recorder().begin(event.call, event.issued_ns);
  }
  return {EventHandle::Kind::call, stream_.index(), event.sequence};
}

void NcclEvents::stop_group(std::uint64_t group) {
  const auto ended = [&](std::uint64_t sequence) {
    const Event* const event = find(sequence);
    if (event != nullptr && event->group != group) {
      return false;
    }
    if (event != nullptr && !event->is_taken && event->slot != Recorder::k_dropped) {
      finish_enqueued(*event);
    }
    return true;
  };
  std::erase_if(quiet_, ended);
}

void NcclEvents::stop_call(std::uint64_t sequence) {
  const Event* const event = find(sequence);
  if (event != nullptr && !event->is_complete) {
    finish_enqueued(*event);
  }
}

void NcclEvents::finish_enqueued(const Event& event) {
  RecordedCall call = event.call;
  call.note = stream_.note(call.note == NameId{} ? NcclNote::enqueued : NcclNote::both);
  const nanoseconds issued(event.issued_ns);
  stream_.finish(event.slot, call, {issued, issued, nanoseconds(stream_.now_ns())}, event.position);
}

EventHandle NcclEvents::start_kernel(const EventHandle& call, std::uint64_t timer) {
  Event* const event = call.kind == EventHandle::Kind::call ? find(call.sequence) : nullptr;
  if (event == nullptr) {
    stream_.skip("kernel event of a call that is not known any more");
    return {};
  }
  if (event->is_misnumbered) {
    stream_.skip("kernel event of a communicator after a message of a rank to itself, which NCCL misnumbers");
    return {};
  }
  if (event->first_start_ns == 0) {
    event->first_start_ns = stream_.now_ns();
  }
  if (timer != 0 && (event->first_timer == 0 || timer < event->first_timer)) {
    event->first_timer = timer;
  }
  return {EventHandle::Kind::kernel, stream_.index(), event->sequence};
}

void NcclEvents::time_kernel(std::uint64_t sequence, std::uint64_t timer) {
  Event* const event = find(sequence);
  // The channel that ended last on the GPU says when the call ended, whenever we hear of the others.
  if (event != nullptr && timer > event->last_timer) {
    event->last_timer = timer;
    event->last_stop_ns = stream_.now_ns();
    complete(*event);
  }
}

void NcclEvents::stop_kernel(std::uint64_t sequence) {
  Event* const event = find(sequence);
  if (event != nullptr && event->last_timer == 0) {
    event->last_stop_ns = stream_.now_ns();
    complete(*event);
  }
}

// The host hears of a channel's end a little late. How long the call ran is taken from the GPU's clock, where
// there is one, and ends when the host heard of the end.
void NcclEvents::complete(Event& event) {
  event.is_complete = true;
  std::int64_t started = event.first_start_ns;
  if (event.first_timer != 0 && event.last_timer >= event.first_timer) {
    started = event.last_stop_ns - static_cast<std::int64_t>(event.last_timer - event.first_timer);
  }
  started = std::clamp(started, event.issued_ns, std::max(event.issued_ns, event.last_stop_ns));
  stream_.finish(event.slot, event.call,
                 {nanoseconds(event.issued_ns), nanoseconds(started), nanoseconds(event.last_stop_ns)},
                 event.position);
}

}  // namespace commlens::capture
