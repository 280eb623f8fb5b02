// The functions of commlens.h.
#include "commlens/capture/mpi_entry.hpp"
#include "commlens/capture/mpi_session.hpp"

using commlens::capture::Session;

COMMLENS_EXPORT void commlens_mark_iteration(int iteration) {
  if (Session* const session = Session::of_process(); session != nullptr) {
    session->set_iteration(iteration);
  }
}

COMMLENS_EXPORT void commlens_mark_phase(const char* phase) {
  if (Session* const session = Session::of_process(); session != nullptr && phase != nullptr) {
    session->set_phase(commlens::phase_from(phase));
  }
}

COMMLENS_EXPORT void commlens_mark_pause(double seconds) {
  if (Session* const session = Session::of_process(); session != nullptr) {
    session->announce_pause(seconds);
  }
}

COMMLENS_EXPORT void commlens_mark_micro_batch(int micro_batch) {
  if (Session* const session = Session::of_process(); session != nullptr) {
    session->set_micro_batch(micro_batch);
  }
}
