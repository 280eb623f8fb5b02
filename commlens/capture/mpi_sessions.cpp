// Programs that use MPI sessions (MPI 4): a recording lasts from the first communicator of all processes,
// which all of them make together, so that they can agree on it, to the end of the last session. Until then
// each process may do what it likes, and nothing of ours may wait for another.
#include <atomic>
#include <exception>
#include <string>

#include "commlens/capture/mpi_entry.hpp"
#include "commlens/capture/mpi_lifetime.hpp"

#if COMMLENS_HAS(MPI_Session_init)
namespace commlens::capture {
namespace {

struct Sessions {
  std::atomic<int> open = 0;  // the program's
  MPI_Session own{};          // from which job_comm() comes
  bool has_own = false;
};
Sessions& sessions() {
  static Sessions& only = *new Sessions;
  return only;
}

/// How many processes the set of all of them has, and this one's place.
struct AllProcesses {
  int size = 0;
  int rank = 0;
};
bool group_of_all(MPI_Session session, MPI_Group& group, AllProcesses& all) {
  if (COMMLENS_REAL(PMPI_Group_from_session_pset)(session, "mpi://WORLD", &group) != MPI_SUCCESS) {
    return false;
  }
  COMMLENS_REAL(PMPI_Group_size)(group, &all.size);
  COMMLENS_REAL(PMPI_Group_rank)(group, &all.rank);
  return true;
}

/// A session of ours and its communicator of all processes; all of them come here together.
bool make_own_world(MPI_Comm& world) {
  MPI_Group group{};
  AllProcesses all;
  if (!group_of_all(sessions().own, group, all)) {
    return false;
  }
  const int code =
      COMMLENS_REAL(PMPI_Comm_create_from_group)(group, "commlens", MPI_INFO_NULL, MPI_ERRORS_RETURN, &world);
  COMMLENS_REAL(PMPI_Group_free)(&group);
  return code == MPI_SUCCESS;
}

int size_of_all() {
  MPI_Group group{};
  AllProcesses all;
  if (!group_of_all(sessions().own, group, all)) {
    return 0;
  }
  COMMLENS_REAL(PMPI_Group_free)(&group);
  return all.size;
}

/// A session of the program was opened.
void session_opened() noexcept {
  ++sessions().open;
  if (asked_directory() == nullptr || sessions().has_own || !is_library_known()) {
    return;
  }
  sessions().has_own =
      COMMLENS_REAL(PMPI_Session_init)(MPI_INFO_NULL, MPI_ERRORS_RETURN, &sessions().own) == MPI_SUCCESS;
}

/// The program has made a communicator of a group.
void comm_created(MPI_Comm comm) noexcept {
  const char* const asked = asked_directory();
  if (asked == nullptr || !sessions().has_own) {
    return;
  }
  try {
    int size = 0;
    COMMLENS_REAL(PMPI_Comm_size)(comm, &size);
    MPI_Comm world{};
    if (size == size_of_all() && make_own_world(world)) {
      kept().is_over_sessions = true;
      Session::start_over(world, asked);
    }
  } catch (const std::exception& error) {
    kept().trouble = error.what();
  }
}

/// The program is about to close a session, its last one perhaps.
void session_closing() noexcept {
  if (--sessions().open > 0 || is_world_model_used() || !sessions().has_own) {
    return;
  }
  if (!kept().has_world && kept().trouble.empty()) {
    MPI_Group group{};
    AllProcesses all;
    if (group_of_all(sessions().own, group, all)) {
      COMMLENS_REAL(PMPI_Group_free)(&group);
    }
    kept().rank = all.rank;
    kept().trouble = "the program uses MPI sessions and never makes a communicator of all its processes";
  }
  Session::finish();
  end_own_session();
}

}  // namespace

bool is_recorded_over_sessions() { return kept().is_over_sessions && sessions().open > 0; }

void end_own_session() {
  if (sessions().open == 0 && sessions().has_own) {
    COMMLENS_REAL(PMPI_Session_finalize)(&sessions().own);
    sessions().has_own = false;
  }
}

}  // namespace commlens::capture

// NOLINTBEGIN(misc-use-anonymous-namespace): the names and parameters are the standard's
using commlens::capture::HandleArgument;

static int recorded_MPI_Session_init(HandleArgument<MPI_Info> info, HandleArgument<MPI_Errhandler> handler,
                                     MPI_Session* session) {
  const int code = COMMLENS_NEXT_AS(PMPI_Session_init,
                                    (HandleArgument<MPI_Info>, HandleArgument<MPI_Errhandler>, MPI_Session*))(
      info, handler, session);
  if (code == MPI_SUCCESS) {
    commlens::capture::session_opened();
  }
  return code;
}
COMMLENS_ENTRY(MPI_Session_init, PMPI_Session_init,
               (HandleArgument<MPI_Info> info, HandleArgument<MPI_Errhandler> handler, MPI_Session* session),
               (info, handler, session))

static int recorded_MPI_Comm_create_from_group(HandleArgument<MPI_Group> group, const char* tag,
                                               HandleArgument<MPI_Info> info,
                                               HandleArgument<MPI_Errhandler> handler, MPI_Comm* comm) {
  const int code =
      COMMLENS_NEXT_AS(PMPI_Comm_create_from_group,
                       (HandleArgument<MPI_Group>, const char*, HandleArgument<MPI_Info>,
                        HandleArgument<MPI_Errhandler>, MPI_Comm*))(group, tag, info, handler, comm);
  if (code == MPI_SUCCESS) {
    commlens::capture::comm_created(*comm);
  }
  if (commlens::capture::Session* const recording = commlens::capture::Session::of_process();
      recording != nullptr) {
    recording->made_by_members(comm, tag, code);
  }
  return code;
}
COMMLENS_ENTRY(MPI_Comm_create_from_group, PMPI_Comm_create_from_group,
               (HandleArgument<MPI_Group> group, const char* tag, HandleArgument<MPI_Info> info,
                HandleArgument<MPI_Errhandler> handler, MPI_Comm* comm),
               (group, tag, info, handler, comm))

static int recorded_MPI_Session_finalize(MPI_Session* session) {
  commlens::capture::session_closing();
  return COMMLENS_NEXT(PMPI_Session_finalize)(session);
}
COMMLENS_ENTRY(MPI_Session_finalize, PMPI_Session_finalize, (MPI_Session * session), (session))
// NOLINTEND(misc-use-anonymous-namespace)
#else
bool commlens::capture::is_recorded_over_sessions() { return false; }
void commlens::capture::end_own_session() {}
#endif
