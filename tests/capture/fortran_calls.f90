! The calls of a Fortran program, which reach the C library in different ways (docs/recording.md). It uses the
! module mpi or, with FORTRAN_08, mpi_f08, whose handles have types.
#ifdef FORTRAN_08
#define MODULE_USED mpi_f08
#else
#define MODULE_USED mpi
#endif
program fortran_calls
  use MODULE_USED
  implicit none
  integer :: ierror, rank, ranks
#ifdef FORTRAN_08
  type(MPI_Request) :: request
#else
  integer :: request
#endif
  double precision :: given(10), taken(10)
  given = 1.0d0
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call MPI_Allreduce(given, taken, 10, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
  call MPI_Bcast(given, 9, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierror)
  call MPI_Irecv(taken, 8, MPI_DOUBLE_PRECISION, rank, 1, MPI_COMM_WORLD, request, ierror)
  call MPI_Send(given, 7, MPI_DOUBLE_PRECISION, rank, 1, MPI_COMM_WORLD, ierror)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
end program
