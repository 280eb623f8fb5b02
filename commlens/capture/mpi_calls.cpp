// The calls of mpi_calls.def: collectives, sends and one-sided calls.
#include "commlens/capture/mpi_entry.hpp"
#include "commlens/capture/mpi_receives.hpp"
#include "commlens/capture/mpi_session.hpp"
#include "commlens/capture/mpi_sizes.hpp"

// NOLINTBEGIN(misc-use-anonymous-namespace,readability-function-size): the names and parameters are the
// standard's
namespace {

using namespace commlens;
using namespace commlens::capture;

#define COMMLENS_INFO(...) (__VA_ARGS__, HandleArgument<MPI_Info> info)
#define COMMLENS_INFO_ARGUMENT(...) (__VA_ARGS__, info)

}  // namespace

// Open MPI 4 has the persistent collectives of MPI 4 under names of its own (MPIX_Bcast_init).
#define COMMLENS_COLLECTIVE(Name, name, PARAMETERS, ARGUMENTS, ...)                           \
  COMMLENS_WRAP_BLOCKING(MPI_##Name, PMPI_##Name, PARAMETERS, ARGUMENTS, __VA_ARGS__)         \
  COMMLENS_WRAP_REQUEST(MPI_I##name, PMPI_I##name, PARAMETERS, ARGUMENTS, __VA_ARGS__)        \
  COMMLENS_WRAP_PERSISTENT(MPI_##Name##_init, PMPI_##Name##_init, COMMLENS_INFO PARAMETERS,   \
                           COMMLENS_INFO_ARGUMENT ARGUMENTS, __VA_ARGS__)                     \
  COMMLENS_WRAP_PERSISTENT(MPIX_##Name##_init, PMPIX_##Name##_init, COMMLENS_INFO PARAMETERS, \
                           COMMLENS_INFO_ARGUMENT ARGUMENTS, __VA_ARGS__)
#define COMMLENS_SEND_PARAMETERS                                                        \
  (const void* buffer, COUNT count, HandleArgument<MPI_Datatype> type, int to, int tag, \
   HandleArgument<MPI_Comm> comm)
#define COMMLENS_SEND_ARGUMENTS (buffer, count, type, to, tag, comm)
#define COMMLENS_DESCRIBE_SEND describe_send(session, out, comm, to, session.amount(count, type))
#define COMMLENS_SEND(Name, name)                                                                     \
  COMMLENS_WRAP_BLOCKING(MPI_##Name, PMPI_##Name, COMMLENS_SEND_PARAMETERS, COMMLENS_SEND_ARGUMENTS,  \
                         COMMLENS_DESCRIBE_SEND)                                                      \
  COMMLENS_WRAP_REQUEST(MPI_I##name, PMPI_I##name, COMMLENS_SEND_PARAMETERS, COMMLENS_SEND_ARGUMENTS, \
                        COMMLENS_DESCRIBE_SEND)                                                       \
  COMMLENS_WRAP_PERSISTENT(MPI_##Name##_init, PMPI_##Name##_init, COMMLENS_SEND_PARAMETERS,           \
                           COMMLENS_SEND_ARGUMENTS, COMMLENS_DESCRIBE_SEND)
#define COMMLENS_ONE_SIDED(Name, name, PARAMETERS, ARGUMENTS, ...)                    \
  COMMLENS_WRAP_BLOCKING(MPI_##Name, PMPI_##Name, PARAMETERS, ARGUMENTS, __VA_ARGS__) \
  COMMLENS_WRAP_REQUEST(MPI_R##name, PMPI_R##name, PARAMETERS, ARGUMENTS, __VA_ARGS__)
#define COMMLENS_BLOCKING(Name, PARAMETERS, ARGUMENTS, ...) \
  COMMLENS_WRAP_BLOCKING(MPI_##Name, PMPI_##Name, PARAMETERS, ARGUMENTS, __VA_ARGS__)
#define COMMLENS_RECEIVE_PARAMETERS                                                   \
  (void* buffer, COUNT count, HandleArgument<MPI_Datatype> type, int source, int tag, \
   HandleArgument<MPI_Comm> comm)
#define COMMLENS_RECEIVE_ARGUMENTS (buffer, count, type, source, tag, comm)
#define COMMLENS_DESCRIBE_RECEIVE describe_receive(session, out, comm, source, session.amount(count, type))
#define COMMLENS_RECEIVE(Name, name)                                                                        \
  COMMLENS_WRAP_RECEIVE(MPI_##Name, PMPI_##Name, COMMLENS_RECEIVE_PARAMETERS, COMMLENS_RECEIVE_ARGUMENTS,   \
                        COMMLENS_DESCRIBE_RECEIVE)                                                          \
  COMMLENS_WRAP_REQUEST(MPI_I##name, PMPI_I##name, COMMLENS_RECEIVE_PARAMETERS, COMMLENS_RECEIVE_ARGUMENTS, \
                        COMMLENS_DESCRIBE_RECEIVE)                                                          \
  COMMLENS_WRAP_PERSISTENT(MPI_##Name##_init, PMPI_##Name##_init, COMMLENS_RECEIVE_PARAMETERS,              \
                           COMMLENS_RECEIVE_ARGUMENTS, COMMLENS_DESCRIBE_RECEIVE)
#define COMMLENS_EXCHANGE(Name, name, PARAMETERS, ARGUMENTS, SEND, RECEIVE)             \
  COMMLENS_WRAP_EXCHANGE(MPI_##Name, PMPI_##Name, PARAMETERS, ARGUMENTS, SEND, RECEIVE) \
  COMMLENS_WRAP_EXCHANGE_REQUEST(MPI_I##name, PMPI_I##name, PARAMETERS, ARGUMENTS, SEND, RECEIVE)
#define COMMLENS_MATCHED(Name, name)                                                \
  COMMLENS_WRAP_MATCHED(MPI_##Name, PMPI_##Name, COUNT, MPI_Status, record_matched) \
  COMMLENS_WRAP_MATCHED(MPI_I##name, PMPI_I##name, COUNT, MPI_Request, record_matched_request)
#define COUNT int
#define DISPLACEMENT int
#include "commlens/capture/mpi_calls.def"

#undef COMMLENS_COLLECTIVE
#undef COMMLENS_SEND
#undef COMMLENS_RECEIVE
#undef COMMLENS_EXCHANGE
#undef COMMLENS_MATCHED
#undef COMMLENS_ONE_SIDED
#undef COMMLENS_BLOCKING
#undef COUNT
#undef DISPLACEMENT

// The same with large counts.
#define COMMLENS_COLLECTIVE(Name, name, PARAMETERS, ARGUMENTS, ...)                             \
  COMMLENS_WRAP_BLOCKING(MPI_##Name##_c, PMPI_##Name##_c, PARAMETERS, ARGUMENTS, __VA_ARGS__)   \
  COMMLENS_WRAP_REQUEST(MPI_I##name##_c, PMPI_I##name##_c, PARAMETERS, ARGUMENTS, __VA_ARGS__)  \
  COMMLENS_WRAP_PERSISTENT(MPI_##Name##_init_c, PMPI_##Name##_init_c, COMMLENS_INFO PARAMETERS, \
                           COMMLENS_INFO_ARGUMENT ARGUMENTS, __VA_ARGS__)
#define COMMLENS_SEND(Name, name)                                                                            \
  COMMLENS_WRAP_BLOCKING(MPI_##Name##_c, PMPI_##Name##_c, COMMLENS_SEND_PARAMETERS, COMMLENS_SEND_ARGUMENTS, \
                         COMMLENS_DESCRIBE_SEND)                                                             \
  COMMLENS_WRAP_REQUEST(MPI_I##name##_c, PMPI_I##name##_c, COMMLENS_SEND_PARAMETERS,                         \
                        COMMLENS_SEND_ARGUMENTS, COMMLENS_DESCRIBE_SEND)                                     \
  COMMLENS_WRAP_PERSISTENT(MPI_##Name##_init_c, PMPI_##Name##_init_c, COMMLENS_SEND_PARAMETERS,              \
                           COMMLENS_SEND_ARGUMENTS, COMMLENS_DESCRIBE_SEND)
#define COMMLENS_ONE_SIDED(Name, name, PARAMETERS, ARGUMENTS, ...)                            \
  COMMLENS_WRAP_BLOCKING(MPI_##Name##_c, PMPI_##Name##_c, PARAMETERS, ARGUMENTS, __VA_ARGS__) \
  COMMLENS_WRAP_REQUEST(MPI_R##name##_c, PMPI_R##name##_c, PARAMETERS, ARGUMENTS, __VA_ARGS__)
#define COMMLENS_BLOCKING(...)
#define COMMLENS_RECEIVE(Name, name)                                                                   \
  COMMLENS_WRAP_RECEIVE(MPI_##Name##_c, PMPI_##Name##_c, COMMLENS_RECEIVE_PARAMETERS,                  \
                        COMMLENS_RECEIVE_ARGUMENTS, COMMLENS_DESCRIBE_RECEIVE)                         \
  COMMLENS_WRAP_REQUEST(MPI_I##name##_c, PMPI_I##name##_c, COMMLENS_RECEIVE_PARAMETERS,                \
                        COMMLENS_RECEIVE_ARGUMENTS, COMMLENS_DESCRIBE_RECEIVE)                         \
  COMMLENS_WRAP_PERSISTENT(MPI_##Name##_init##_c, PMPI_##Name##_init##_c, COMMLENS_RECEIVE_PARAMETERS, \
                           COMMLENS_RECEIVE_ARGUMENTS, COMMLENS_DESCRIBE_RECEIVE)
#define COMMLENS_EXCHANGE(Name, name, PARAMETERS, ARGUMENTS, SEND, RECEIVE)                     \
  COMMLENS_WRAP_EXCHANGE(MPI_##Name##_c, PMPI_##Name##_c, PARAMETERS, ARGUMENTS, SEND, RECEIVE) \
  COMMLENS_WRAP_EXCHANGE_REQUEST(MPI_I##name##_c, PMPI_I##name##_c, PARAMETERS, ARGUMENTS, SEND, RECEIVE)
#define COMMLENS_MATCHED(Name, name)                                                        \
  COMMLENS_WRAP_MATCHED(MPI_##Name##_c, PMPI_##Name##_c, COUNT, MPI_Status, record_matched) \
  COMMLENS_WRAP_MATCHED(MPI_I##name##_c, PMPI_I##name##_c, COUNT, MPI_Request, record_matched_request)
#define COUNT MPI_Count
#define DISPLACEMENT MPI_Aint
#include "commlens/capture/mpi_calls.def"
// NOLINTEND(misc-use-anonymous-namespace,readability-function-size)
