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
  if (event.is_under_way) {
    finish_enqueued(event);
  }
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
  event.comm = comm.identity().comm;
  event.has_kernels = seen.has_kernels && !event.is_misnumbered && (api == nullptr || !api->is_captured);
  if (event.has_kernels && !is_point_to_point(call->kind)) {
    event.number = ++lines_[event.comm].entered;
  }
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
    Event* const event = find(sequence);
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
  Event* const event = find(sequence);
  if (event == nullptr || event->is_complete || event->enqueued_ns != 0) {
    return;
  }
  event->enqueued_ns = stream_.now_ns();
  without_kernels_ += has_seen_kernels_ ? 0 : 1;
  set_under_way(*event, event->has_kernels && (has_seen_kernels_ || without_kernels_ <= k_patience));
  if (!event->is_under_way) {
    finish_enqueued(*event);
  } else if (event->number != 0) {
    lines_[event->comm].under_way.push_back(sequence);
  }
  if (!has_seen_kernels_ && without_kernels_ == k_patience + 1) {
    finish_calls();
  }
}

void NcclEvents::finish_calls_of(std::uint64_t comm) {
  finish_calls([comm](const Event& event) { return event.comm == comm; });
  lines_.erase(comm);
}

void NcclEvents::finish_calls() {
  finish_calls([](const Event&) { return true; });
}

template <typename Wanted>
void NcclEvents::finish_calls(const Wanted& is_wanted) {
  std::size_t left = under_way_;
  for (std::uint64_t sequence = next_ - 1; left > 0 && sequence > 0; --sequence) {
    Event& event = events_[sequence % k_most];
    left -= event.is_under_way ? 1 : 0;
    if (event.is_under_way && is_wanted(event)) {
      finish_enqueued(event);
    }
  }
}

void NcclEvents::set_under_way(Event& event, bool is_under_way) {
  under_way_ += is_under_way ? 1 : 0;
  under_way_ -= event.is_under_way ? 1 : 0;
  event.is_under_way = is_under_way;
}

void NcclEvents::finish_enqueued(Event& event) {
  set_under_way(event, false);
  RecordedCall call = event.call;
  call.note = stream_.note(call.note == NameId{} ? NcclNote::enqueued : NcclNote::both);
  const nanoseconds issued(event.issued_ns);
  const std::int64_t enqueued = event.enqueued_ns != 0 ? event.enqueued_ns : stream_.now_ns();
  stream_.finish(event.slot, call, {issued, issued, nanoseconds(enqueued)}, event.position);
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
  has_seen_kernels_ = true;
  if (event->first_start_ns == 0) {
    event->first_start_ns = stream_.now_ns();
    stream_.recorder().start(event->slot, nanoseconds(event->issued_ns), nanoseconds(event->first_start_ns));
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
  if (!event.is_complete) {
    event.is_complete = true;
    set_under_way(event, false);
    overtake(event);
  }
  std::int64_t started = event.first_start_ns;
  if (event.first_timer != 0 && event.last_timer >= event.first_timer) {
    started = event.last_stop_ns - static_cast<std::int64_t>(event.last_timer - event.first_timer);
  }
  started = std::clamp(started, event.issued_ns, std::max(event.issued_ns, event.last_stop_ns));
  stream_.finish(event.slot, event.call,
                 {nanoseconds(event.issued_ns), nanoseconds(started), nanoseconds(event.last_stop_ns)},
                 event.position);
}

/// A collective has ended: what was called long before it has ended, too.
void NcclEvents::overtake(const Event& event) {
  const auto line = event.number == 0 ? lines_.end() : lines_.find(event.comm);
  while (line != lines_.end() && !line->second.under_way.empty()) {
    Event* const first = find(line->second.under_way.front());
    if (first != nullptr && first->is_under_way) {
      if (first->number + k_overtaken > event.number) {
        return;
      }
      finish_enqueued(*first);
    }
    line->second.under_way.pop_front();
  }
}

}  // namespace commlens::capture
