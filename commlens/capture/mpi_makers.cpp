// Calls that make communicators and windows. They move no data of the program's and are not recorded; what
// they make gets its number here (mpi_communicators.hpp).
#include "commlens/capture/mpi_entry.hpp"
#include "commlens/capture/mpi_session.hpp"

// NOLINTBEGIN(misc-use-anonymous-namespace,readability-function-size): the names and parameters are the
// standard's
using commlens::capture::HandleArgument;
using commlens::capture::Session;
using Comm = HandleArgument<MPI_Comm>;
using Group = HandleArgument<MPI_Group>;
using Info = HandleArgument<MPI_Info>;

// What follows the arguments is done with the `recording` when the call has returned `code`.
// NOLINTBEGIN(bugprone-macro-parentheses): what has no parentheses is a name, or a list in parentheses
#define COMMLENS_MAKER(NAME, PNAME, PARAMETERS, ARGUMENTS, ...)                   \
  COMMLENS_WHEN(NAME)                                                             \
  (static int recorded_##NAME PARAMETERS {                                        \
    const int code = COMMLENS_NEXT_AS(PNAME, PARAMETERS) ARGUMENTS;               \
    if (Session* const recording = Session::of_process(); recording != nullptr) { \
      __VA_ARGS__;                                                                \
    }                                                                             \
    return code;                                                                  \
  } COMMLENS_ENTRY(NAME, PNAME, PARAMETERS, ARGUMENTS))
// NOLINTEND(bugprone-macro-parentheses)

// --- by all members of a communicator
#define COMMLENS_BY_ALL recording->made_by_all(comm, made, code)
COMMLENS_MAKER(MPI_Comm_dup, PMPI_Comm_dup, (Comm comm, MPI_Comm* made), (comm, made), COMMLENS_BY_ALL)
COMMLENS_MAKER(MPI_Comm_dup_with_info, PMPI_Comm_dup_with_info, (Comm comm, Info info, MPI_Comm* made),
               (comm, info, made), COMMLENS_BY_ALL)
COMMLENS_MAKER(MPI_Comm_idup, PMPI_Comm_idup, (Comm comm, MPI_Comm* made, MPI_Request* request),
               (comm, made, request), COMMLENS_BY_ALL)
COMMLENS_MAKER(MPI_Comm_idup_with_info, PMPI_Comm_idup_with_info,
               (Comm comm, Info info, MPI_Comm* made, MPI_Request* request), (comm, info, made, request),
               COMMLENS_BY_ALL)
COMMLENS_MAKER(MPI_Comm_create, PMPI_Comm_create, (Comm comm, Group group, MPI_Comm* made),
               (comm, group, made), COMMLENS_BY_ALL)
COMMLENS_MAKER(MPI_Comm_split, PMPI_Comm_split, (Comm comm, int colour, int key, MPI_Comm* made),
               (comm, colour, key, made), COMMLENS_BY_ALL)
COMMLENS_MAKER(MPI_Comm_split_type, PMPI_Comm_split_type,
               (Comm comm, int type, int key, Info info, MPI_Comm* made), (comm, type, key, info, made),
               COMMLENS_BY_ALL)
COMMLENS_MAKER(MPI_Cart_create, PMPI_Cart_create,
               (Comm comm, int dimensions, const int sizes[], const int closes[], int reorder,
                MPI_Comm* made),
               (comm, dimensions, sizes, closes, reorder, made), COMMLENS_BY_ALL)
COMMLENS_MAKER(MPI_Cart_sub, PMPI_Cart_sub, (Comm comm, const int remains[], MPI_Comm* made),
               (comm, remains, made), COMMLENS_BY_ALL)
COMMLENS_MAKER(MPI_Graph_create, PMPI_Graph_create,
               (Comm comm, int nodes, const int index[], const int edges[], int reorder, MPI_Comm* made),
               (comm, nodes, index, edges, reorder, made), COMMLENS_BY_ALL)
COMMLENS_MAKER(MPI_Dist_graph_create, PMPI_Dist_graph_create,
               (Comm comm, int count, const int sources[], const int degrees[], const int destinations[],
                const int weights[], Info info, int reorder, MPI_Comm* made),
               (comm, count, sources, degrees, destinations, weights, info, reorder, made), COMMLENS_BY_ALL)
COMMLENS_MAKER(MPI_Dist_graph_create_adjacent, PMPI_Dist_graph_create_adjacent,
               (Comm comm, int in, const int sources[], const int source_weights[], int out,
                const int destinations[], const int weights[], Info info, int reorder, MPI_Comm* made),
               (comm, in, sources, source_weights, out, destinations, weights, info, reorder, made),
               COMMLENS_BY_ALL)
COMMLENS_MAKER(MPI_Intercomm_merge, PMPI_Intercomm_merge, (Comm comm, int high, MPI_Comm* made),
               (comm, high, made), COMMLENS_BY_ALL)

// --- by some members of one
COMMLENS_MAKER(MPI_Comm_create_group, PMPI_Comm_create_group,
               (Comm comm, Group group, int tag, MPI_Comm* made), (comm, group, tag, made),
               recording->made_by_part({comm, group, tag}, made, code))

// --- by processes that need have no communicator in common; MPI_Comm_create_from_group is in
// mpi_sessions.cpp. What is made with processes of other jobs is none that a trace can say.
COMMLENS_MAKER(MPI_Intercomm_create, PMPI_Intercomm_create,
               (Comm comm, int leader, Comm peers, int other_leader, int tag, MPI_Comm* made),
               (comm, leader, peers, other_leader, tag, made), recording->made_by_members(made, "", code))
COMMLENS_MAKER(MPI_Comm_accept, PMPI_Comm_accept,
               (const char* port, Info info, int root, Comm comm, MPI_Comm* made),
               (port, info, root, comm, made), recording->made_by_members(made, "", code))
COMMLENS_MAKER(MPI_Comm_connect, PMPI_Comm_connect,
               (const char* port, Info info, int root, Comm comm, MPI_Comm* made),
               (port, info, root, comm, made), recording->made_by_members(made, "", code))
COMMLENS_MAKER(MPI_Comm_join, PMPI_Comm_join, (int socket, MPI_Comm* made), (socket, made),
               recording->made_by_members(made, "", code))
COMMLENS_MAKER(MPI_Intercomm_create_from_groups, PMPI_Intercomm_create_from_groups,
               (Group group, int leader, Group others, int other_leader, const char* word, Info info,
                HandleArgument<MPI_Errhandler> handler, MPI_Comm* made),
               (group, leader, others, other_leader, word, info, handler, made),
               recording->made_by_members(made, word, code))

// --- windows, which are their communicator's
#define COMMLENS_WINDOW recording->made_window(comm, window, code)
#define COMMLENS_WINDOWS(SUFFIX, UNIT)                                                            \
  COMMLENS_MAKER(MPI_Win_create##SUFFIX, PMPI_Win_create##SUFFIX,                                 \
                 (void* memory, MPI_Aint size, UNIT unit, Info info, Comm comm, MPI_Win* window), \
                 (memory, size, unit, info, comm, window), COMMLENS_WINDOW)                       \
  COMMLENS_MAKER(MPI_Win_allocate##SUFFIX, PMPI_Win_allocate##SUFFIX,                             \
                 (MPI_Aint size, UNIT unit, Info info, Comm comm, void* memory, MPI_Win* window), \
                 (size, unit, info, comm, memory, window), COMMLENS_WINDOW)                       \
  COMMLENS_MAKER(MPI_Win_allocate_shared##SUFFIX, PMPI_Win_allocate_shared##SUFFIX,               \
                 (MPI_Aint size, UNIT unit, Info info, Comm comm, void* memory, MPI_Win* window), \
                 (size, unit, info, comm, memory, window), COMMLENS_WINDOW)
COMMLENS_WINDOWS(, int)
COMMLENS_WINDOWS(_c, MPI_Aint)
COMMLENS_MAKER(MPI_Win_create_dynamic, PMPI_Win_create_dynamic, (Info info, Comm comm, MPI_Win* window),
               (info, comm, window), COMMLENS_WINDOW)
// NOLINTEND(misc-use-anonymous-namespace,readability-function-size)
