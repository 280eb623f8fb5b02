#pragma once
#include <string>

#include "commlens/capture/mpi_session.hpp"

// What the beginning and the end of a recording share, with and without MPI sessions.
namespace commlens::capture {

/// What stays until the end, whatever becomes of the session. Threads of the program may still look at it
/// when the process ends, so it is never given back.
struct Kept {
  Session* session = nullptr;
  MPI_Comm world;  // job_comm()
  bool has_world = false;
  bool is_over_sessions = false;  // the recording began with a communicator of MPI sessions
  int rank = 0;
  bool is_over = false;
  std::string trouble;  // why there is no recording, on rank 0
};
Kept& kept();

/// The directory that is asked for, if this process is to record and has not begun to.
const char* asked_directory();
/// Whether the loaded library is the one we were built for; says later why not.
bool is_library_known();
/// Whether MPI_Init was called, and MPI_Finalize not yet.
bool is_world_model_used();
/// Whether the recording goes on until the last MPI session ends, rather than to MPI_Finalize.
bool is_recorded_over_sessions();
/// After Session::finish(): releases what recording sessions needed.
void end_own_session();

}  // namespace commlens::capture
