/* A tool as users have them (mpiP, Darshan): counts calls of the program, reports to rank 0 by messages of its own, and
 * prints them. To be preloaded, or linked with a program. Its Fortran functions call PMPI functions of C. */
#include <mpi.h>
#include <stdio.h>

static int calls;

int MPI_Init(int* count, char*** arguments) {
  const int code = PMPI_Init(count, arguments);
  PMPI_Barrier(MPI_COMM_WORLD);
  return code;
}

int MPI_Init_thread(int* count, char*** arguments, int required, int* provided) {
  const int code = PMPI_Init_thread(count, arguments, required, provided);
  PMPI_Barrier(MPI_COMM_WORLD);
  return code;
}

int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ++calls;
  return PMPI_Allreduce(from, to, count, type, op, comm);
}

int MPI_Finalize(void) {
  int all = 0;
  int rank = 0;
  PMPI_Reduce(&calls, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    printf("the tool saw %d reductions\n", all);
  }
  return PMPI_Finalize();
}

#ifdef TOOL_OF_FORTRAN
void mpi_allreduce_(void* from, void* to, MPI_Fint* count, MPI_Fint* type, MPI_Fint* op, MPI_Fint* comm, MPI_Fint* code);
void mpi_allreduce_(void* from, void* to, MPI_Fint* count, MPI_Fint* type, MPI_Fint* op, MPI_Fint* comm, MPI_Fint* code) {
  ++calls;
  *code = PMPI_Allreduce(from, to, *count, MPI_Type_f2c(*type), MPI_Op_f2c(*op), MPI_Comm_f2c(*comm));
}
void mpi_finalize_(MPI_Fint* code);
void mpi_finalize_(MPI_Fint* code) { *code = MPI_Finalize(); }
#endif
