/* Programs that use MPI sessions: sessions MODE. Ends with 77 where the MPI has none. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#if MPI_VERSION < 4
int main(void) { return 77; }
#else

static MPI_Session opened(void) {
  MPI_Session session;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  return session;
}

static MPI_Comm comm_of(MPI_Session session, const char* set) {
  MPI_Group group;
  MPI_Comm comm;
  MPI_Group_from_session_pset(session, set, &group);
  MPI_Comm_create_from_group(group, "sessions.c", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Group_free(&group);
  return comm;
}

static void reduce(int times, int count, MPI_Comm comm) {
  double buffer[8] = {0};
  for (int i = 0; i < times; ++i) {
    MPI_Allreduce(MPI_IN_PLACE, buffer, count, MPI_DOUBLE, MPI_SUM, comm);
  }
}

/* Ten reductions of all, a message in a ring, and the ranks in reverse as a communicator of its own. */
static void work(MPI_Comm comm) {
  MPI_Comm reverse;
  int rank = 0;
  int ranks = 0;
  double sent = 1;
  double got = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  reduce(10, 8, comm);
  MPI_Sendrecv(&sent, 1, MPI_DOUBLE, (rank + 1) % ranks, 0, &got, 1, MPI_DOUBLE, (rank + ranks - 1) % ranks, 0, comm,
               MPI_STATUS_IGNORE);
  MPI_Comm_split(comm, 0, -rank, &reverse);
  MPI_Bcast(&got, 1, MPI_DOUBLE, 0, reverse);
  MPI_Comm_free(&reverse);
}

int main(int count, char** arguments) {
  const char* mode = arguments[1];
  MPI_Session session = opened();
  if (strcmp(mode, "alone") == 0) { /* each process by itself */
    MPI_Comm self = comm_of(session, "mpi://SELF");
    reduce(10, 8, self);
    MPI_Comm_free(&self);
    MPI_Session_finalize(&session);
    return 0;
  }
  if (strcmp(mode, "and-init") == 0) { /* a library uses sessions, the program does not */
    MPI_Init(&count, &arguments);
  }
  MPI_Comm all = comm_of(session, "mpi://WORLD");
  int rank = 0;
  MPI_Comm_rank(all, &rank);
  if (rank == 0) { /* another session of one process, which ends early */
    MPI_Session own = opened();
    MPI_Comm self = comm_of(own, "mpi://SELF");
    reduce(1, 3, self);
    MPI_Comm_free(&self);
    MPI_Session_finalize(&own);
  }
  work(all);
  MPI_Comm_free(&all);
  if (strcmp(mode, "and-init") == 0) {
    reduce(1, 5, MPI_COMM_WORLD);
    MPI_Finalize();
  }
  MPI_Session_finalize(&session);
  return 0;
}
#endif
