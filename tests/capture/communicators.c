/* Communicators of the same ranks that must not be confused: communicators threads|kinds. Two ranks or
 * four. Each reduction moves a number of elements that says where it belongs. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { most = 4096, calls = 400 };

static int n;
static int r;

static void reduce(int elements, MPI_Comm comm) {
  double sent[most] = {0};
  double sum[most];
  MPI_Allreduce(sent, sum, elements, MPI_DOUBLE, MPI_SUM, comm);
}

/* A thread is slow at other calls on other ranks, so that the ranks' threads take turns in other orders. */
static void loiter(int call, int thread) {
  if ((call * 7 + thread * 5 + r * 11) % 13 == 0) {
    usleep(100);
  }
}

/* The k-th reduction of the first communicator is of k + 1 elements, that of the second of 1000 + k, among other
 * calls. */
static MPI_Comm both[2];
static void* reduce_in_first(void* nothing) {
  for (int k = 0; k < calls; ++k) {
    loiter(k, 0);
    reduce(k + 1, both[0]);
  }
  return nothing;
}
static void* call_in_second(void* nothing) {
  double box[most] = {0};
  for (int k = 0; k < calls; ++k) {
    loiter(k, 1);
    if (k % 3 == 0) {
      MPI_Bcast(box, 1 + k, MPI_DOUBLE, 0, both[1]);
    }
    if (k % 5 == 0) {
      MPI_Barrier(both[1]);
    }
    reduce(1000 + k, both[1]);
    if (k % 8 == 0) {
      MPI_Sendrecv(box, 1 + k, MPI_DOUBLE, (r + 1) % n, 0, box, most, MPI_DOUBLE, (r + n - 1) % n, 0, both[1],
                   MPI_STATUS_IGNORE);
    }
  }
  return nothing;
}
static void threads(void) {
  pthread_t running[2];
  MPI_Comm_dup(MPI_COMM_WORLD, &both[0]);
  MPI_Comm_dup(MPI_COMM_WORLD, &both[1]);
  pthread_create(&running[0], NULL, &reduce_in_first, NULL);
  pthread_create(&running[1], NULL, &call_in_second, NULL);
  for (int i = 0; i < 2; ++i) {
    pthread_join(running[i], NULL);
  }
}

/* One communicator after another, each with a number of elements of its own. */
static int next_elements = 1;
static void use(MPI_Comm comm) {
  const int elements = next_elements++;
  if (comm != MPI_COMM_NULL) {
    reduce(elements, comm);
  }
}
static void use_and_free(MPI_Comm comm) {
  use(comm);
  if (comm != MPI_COMM_NULL) {
    MPI_Comm_free(&comm);
  }
}

static void of_all_members(void) {
  MPI_Comm made;
  MPI_Comm copy;
  MPI_Request request;
  MPI_Group group;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  use(made);
  MPI_Comm_dup(made, &copy);
  use(copy);
  MPI_Comm_free(&made);
  --next_elements; /* the same communicator again */
  use_and_free(copy);
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &made);
  use_and_free(made);
  MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  use_and_free(made);
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  MPI_Comm_create(MPI_COMM_WORLD, group, &made);
  use_and_free(made);
  MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &made);
  use_and_free(made);
  MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &made);
  use_and_free(made);
  MPI_Group_free(&group);
  MPI_Comm_split(MPI_COMM_WORLD, 1, 0, &made);
  use_and_free(made);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made);
  use_and_free(made);
  for (int i = 0; i < 3; ++i) { /* which comes and goes */
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    use_and_free(made);
  }
}

static void with_topology(void) {
  MPI_Comm made;
  MPI_Comm part;
  const int closes[2] = {1, 1};
  const int sizes[2] = {n, 1};
  const int remains[2] = {1, 0};
  MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, closes, 0, &made);
  use(made);
  MPI_Cart_sub(made, remains, &part);
  use_and_free(part);
  MPI_Comm_free(&made);
  int index[64];
  int edges[64];
  for (int i = 0; i < n; ++i) {
    index[i] = i + 1;
    edges[i] = (i + 1) % n;
  }
  MPI_Graph_create(MPI_COMM_WORLD, n, index, edges, 0, &made);
  use_and_free(made);
  const int next = (r + 1) % n;
  const int before = (r + n - 1) % n;
  const int one = 1;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &made);
  use_and_free(made);
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &r, &one, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made);
  use_and_free(made);
}

/* Between the lower and the upper half; and what is made by some ranks only, so that the others count other calls. */
static void of_parts(void) {
  MPI_Comm half;
  MPI_Comm inter;
  MPI_Comm made;
  MPI_Group group;
  MPI_Group lower;
  const int is_upper = r >= n / 2;
  if (!is_upper) { /* the lower half has made one more than the upper one */
    int range[1][3] = {{0, n / 2 - 1, 1}};
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Group_range_incl(group, 1, range, &lower);
    MPI_Comm_create_group(MPI_COMM_WORLD, lower, 1, &made);
    MPI_Comm_free(&made);
    MPI_Group_free(&lower);
    MPI_Group_free(&group);
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  use_and_free(made);
  MPI_Comm_split(MPI_COMM_WORLD, is_upper, 0, &half);
  next_elements += is_upper * 1000; /* each half has numbers of its own */
  use(half);
  if (is_upper) {
    MPI_Comm_dup(half, &made);
    use_and_free(made);
    --next_elements;
  }
  next_elements -= is_upper * 1000;
  for (int i = 0; i < 2; ++i) {
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_upper ? 0 : n / 2, 5, &inter);
    use(inter);
    MPI_Comm_dup(inter, &made);
    use_and_free(made);
    MPI_Intercomm_merge(inter, is_upper, &made);
    use_and_free(made);
    MPI_Comm_free(&inter);
  }
  MPI_Comm_free(&half);
}

static void windows(void) {
  MPI_Win window;
  MPI_Comm made;
  double* memory;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Win_allocate(64, 8, MPI_INFO_NULL, made, &memory, &window);
  use(made);
  MPI_Win_fence(0, window);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
  MPI_Comm_free(&made);
}

int main(int count, char** arguments) {
  int level = MPI_THREAD_SINGLE;
  const int is_threaded = strcmp(arguments[1], "threads") == 0;
  MPI_Init_thread(&count, &arguments, is_threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  if (is_threaded) {
    if (level != MPI_THREAD_MULTIPLE) {
      puts("this MPI has no MPI_THREAD_MULTIPLE");
      MPI_Abort(MPI_COMM_WORLD, 9);
    }
    threads();
  } else {
    use(MPI_COMM_WORLD);
    of_all_members();
    with_topology();
    of_parts();
    windows();
  }
  MPI_Finalize();
  return 0;
}
