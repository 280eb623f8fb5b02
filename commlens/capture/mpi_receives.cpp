#include "commlens/capture/mpi_receives.hpp"

namespace commlens::capture {

Session::Slot begin_matched(Session& recording, const Entry& entry, MPI_Message message, MPI_Datatype type,
                            Description& out) {
  if (message == handles().message_of_nobody || message == handles().no_message) {
    return Session::k_none;
  }
  const std::optional<bool> blocking = out.call.blocking;
  out = recording.take_message(key_of(message));
  out.call.blocking = blocking;
  const auto as_posted = [&](Session& session) -> Description& {
    const DType dtype = session.amount(1, type).dtype;
    const std::int64_t bytes = out.call.output.value;
    if (bytes % size_of(dtype) == 0) {
      out.call.dtype = dtype;
      out.call.output = Elements{bytes / size_of(dtype)};
    }
    return out;
  };
  return recording.begin(entry.text, entry.name, as_posted);
}

}  // namespace commlens::capture
