# comm_mpi.cpp once per MPI that is installed, each a module of its own.
