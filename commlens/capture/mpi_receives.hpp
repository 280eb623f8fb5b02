#pragma once
#include "commlens/capture/mpi_session.hpp"
#include "commlens/capture/mpi_sizes.hpp"

// Receives: what they were is known when they end.
namespace commlens::capture {

/// A function of MPI: its name, and the name's place in the recording, once it has one.
struct Entry {
  const char* text;
  NameId& name;
};

/// `describe(Session&, Description&)`; `real(MPI_Status*)` makes the call.
template <typename Describe, typename Real>
int record_receive(const Entry& entry, MPI_Status* status, const Describe& describe, const Real& real) {
  Session* const recording = Session::of_process();
  if (recording == nullptr) {
    return real(status);
  }
  Description out;
  out.call.blocking = true;
  const auto filled = [&](Session& session) -> Description& {
    describe(session, out);
    return out;
  };
  const Session::Slot slot = recording->begin(entry.text, entry.name, filled);
  MPI_Status own;
  MPI_Status* const seen = status == MPI_STATUS_IGNORE ? &own : status;
  const int code = real(seen);
  recording->end_receive(slot, out, *seen, code);
  return code;
}

/// The two halves of an exchange, begun.
struct Exchange {
  explicit Exchange(bool is_blocking) { sent.call.blocking = received.call.blocking = is_blocking; }
  Description sent;
  Description received;
  Session::Slots slots;
  bool has_status = true;  // of its end, which says what came
};
template <typename DescribeSend, typename DescribeReceive>
void begin_exchange(Session& recording, const Entry& entry, Exchange& exchange, const DescribeSend& send,
                    const DescribeReceive& receive) {
  const auto filled_send = [&](Session& session) -> Description& {
    send(session, exchange.sent);
    return exchange.sent;
  };
  const auto filled_receive = [&](Session& session) -> Description& {
    receive(session, exchange.received);
    if (!exchange.has_status && exchange.received.kind == Description::Kind::call) {
      exchange.received.kind = Description::Kind::unreported;
    }
    return exchange.received;
  };
  exchange.slots = recording.begin_exchange(entry.text, entry.name, filled_send, filled_receive);
}

template <typename DescribeSend, typename DescribeReceive, typename Real>
int record_exchange(const Entry& entry, MPI_Status* status, const DescribeSend& send,
                    const DescribeReceive& receive, const Real& real) {
  Session* const recording = Session::of_process();
  if (recording == nullptr) {
    return real(status);
  }
  Exchange exchange(true);
  begin_exchange(*recording, entry, exchange, send, receive);
  MPI_Status own;
  MPI_Status* const seen = status == MPI_STATUS_IGNORE ? &own : status;
  const int code = real(seen);
  recording->end_exchange(exchange.slots, exchange.received, *seen, code);
  return code;
}

template <typename DescribeSend, typename DescribeReceive, typename Real>
int record_exchange_request(const Entry& entry, MPI_Request* request, const DescribeSend& send,
                            const DescribeReceive& receive, const Real& real) {
  Session* const recording = Session::of_process();
  if (recording == nullptr) {
    return real();
  }
  // MPICH 4.0 leaves the status of MPI_Isendrecv as an earlier request had it.
  Exchange exchange(false);
  exchange.has_status = k_library != "MPICH";
  begin_exchange(*recording, entry, exchange, send, receive);
  const int code = real();
  recording->issued({.call = exchange.received.call,
                     .source = exchange.received.source,
                     .slot = exchange.slots.received,
                     .sent_slot = exchange.slots.sent},
                    request, code);
  return code;
}

/// Begins the receive of a probed message, which fills `out` but for `blocking`, in elements of `type` where
/// it is a multiple of them.
Session::Slot begin_matched(Session& recording, const Entry& entry, MPI_Message message, MPI_Datatype type,
                            Description& out);

template <typename Real>
int record_matched(const Entry& entry, const MPI_Message* message, MPI_Datatype type, MPI_Status* status,
                   const Real& real) {
  Session* const recording = Session::of_process();
  if (recording == nullptr) {
    return real(status);
  }
  Description out;
  out.call.blocking = true;
  const Session::Slot slot = begin_matched(*recording, entry, *message, type, out);
  const int code = real(status);
  recording->end(slot, code);
  return code;
}

template <typename Real>
int record_matched_request(const Entry& entry, const MPI_Message* message, MPI_Datatype type,
                           MPI_Request* request, const Real& real) {
  Session* const recording = Session::of_process();
  if (recording == nullptr) {
    return real(request);
  }
  Description out;
  out.call.blocking = false;
  const Session::Slot slot = begin_matched(*recording, entry, *message, type, out);
  const int code = real(request);
  recording->issued(out, slot, request, code);
  return code;
}

}  // namespace commlens::capture
