// One rank of a job that makes every collective call of MPI 3, blocking and not, on one communicator and
// between two: a rules file that lacks one ends the job. Written against mpi.h alone. Exit 0: all were made.
#include <array>
#include <cstdio>
#include <vector>

#include <mpi.h>

namespace {

constexpr int k_count = 1000;

/// Buffers and counts of one size on `ranks` ranks.
struct Buffers {
  explicit Buffers(int ranks)
      : sent(static_cast<std::size_t>(k_count * ranks), 1),
        received(sent.size()),
        counts(static_cast<std::size_t>(ranks), k_count),
        offsets(counts.size()),
        byte_offsets(counts.size()),
        wide_offsets(counts.size()),
        types(counts.size(), MPI_FLOAT) {
    for (std::size_t at = 0; at < counts.size(); ++at) {
      offsets[at] = static_cast<int>(at) * k_count;
      byte_offsets[at] = offsets[at] * static_cast<int>(sizeof(float));
      wide_offsets[at] = byte_offsets[at];
    }
  }
  std::vector<float> sent;
  std::vector<float> received;
  std::vector<int> counts;
  std::vector<int> offsets;
  std::vector<int> byte_offsets;
  std::vector<MPI_Aint> wide_offsets;
  std::vector<MPI_Datatype> types;
};

void wait(MPI_Request request) { MPI_Wait(&request, MPI_STATUS_IGNORE); }

/// What one communicator and two have. `root`: as the rank has to give it.
int blocking(MPI_Comm comm, int ranks, int root) {
  Buffers b(ranks);
  float* const in = b.sent.data();
  float* const out = b.received.data();
  const int* const counts = b.counts.data();
  const int* const offsets = b.offsets.data();
  MPI_Barrier(comm);
  MPI_Bcast(out, k_count, MPI_FLOAT, root, comm);
  MPI_Gather(in, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, root, comm);
  MPI_Gatherv(in, k_count, MPI_FLOAT, out, counts, offsets, MPI_FLOAT, root, comm);
  MPI_Scatter(in, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, root, comm);
  MPI_Scatterv(in, counts, offsets, MPI_FLOAT, out, k_count, MPI_FLOAT, root, comm);
  MPI_Allgather(in, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, comm);
  MPI_Allgatherv(in, k_count, MPI_FLOAT, out, counts, offsets, MPI_FLOAT, comm);
  MPI_Alltoall(in, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, comm);
  MPI_Alltoallv(in, counts, offsets, MPI_FLOAT, out, counts, offsets, MPI_FLOAT, comm);
  MPI_Alltoallw(in, counts, b.byte_offsets.data(), b.types.data(), out, counts, b.byte_offsets.data(),
                b.types.data(), comm);
  MPI_Reduce(in, out, k_count, MPI_FLOAT, MPI_SUM, root, comm);
  MPI_Allreduce(in, out, k_count, MPI_FLOAT, MPI_SUM, comm);
  MPI_Allreduce(in, out, 1, MPI_FLOAT, MPI_SUM, comm);
  MPI_Reduce_scatter(in, out, counts, MPI_FLOAT, MPI_SUM, comm);
  MPI_Reduce_scatter_block(in, out, k_count, MPI_FLOAT, MPI_SUM, comm);
  return 16;
}

int nonblocking(MPI_Comm comm, int ranks, int root) {
  Buffers b(ranks);
  float* const in = b.sent.data();
  float* const out = b.received.data();
  const int* const counts = b.counts.data();
  const int* const offsets = b.offsets.data();
  MPI_Request request = MPI_REQUEST_NULL;
  wait((MPI_Ibarrier(comm, &request), request));
  wait((MPI_Ibcast(out, k_count, MPI_FLOAT, root, comm, &request), request));
  wait((MPI_Igather(in, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, root, comm, &request), request));
  wait(
      (MPI_Igatherv(in, k_count, MPI_FLOAT, out, counts, offsets, MPI_FLOAT, root, comm, &request), request));
  wait((MPI_Iscatter(in, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, root, comm, &request), request));
  wait((MPI_Iscatterv(in, counts, offsets, MPI_FLOAT, out, k_count, MPI_FLOAT, root, comm, &request),
        request));
  wait((MPI_Iallgather(in, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, comm, &request), request));
  wait((MPI_Iallgatherv(in, k_count, MPI_FLOAT, out, counts, offsets, MPI_FLOAT, comm, &request), request));
  wait((MPI_Ialltoall(in, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, comm, &request), request));
  wait((MPI_Ialltoallv(in, counts, offsets, MPI_FLOAT, out, counts, offsets, MPI_FLOAT, comm, &request),
        request));
  wait((MPI_Ialltoallw(in, counts, b.byte_offsets.data(), b.types.data(), out, counts, b.byte_offsets.data(),
                       b.types.data(), comm, &request),
        request));
  wait((MPI_Ireduce(in, out, k_count, MPI_FLOAT, MPI_SUM, root, comm, &request), request));
  wait((MPI_Iallreduce(in, out, k_count, MPI_FLOAT, MPI_SUM, comm, &request), request));
  wait((MPI_Ireduce_scatter(in, out, counts, MPI_FLOAT, MPI_SUM, comm, &request), request));
  wait((MPI_Ireduce_scatter_block(in, out, k_count, MPI_FLOAT, MPI_SUM, comm, &request), request));
  return 15;
}

/// In place, and what one communicator alone has.
int on_one(MPI_Comm comm, int ranks) {
  Buffers b(ranks);
  float* const in = b.sent.data();
  float* const out = b.received.data();
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Allreduce(MPI_IN_PLACE, out, k_count, MPI_FLOAT, MPI_SUM, comm);
  MPI_Alltoall(MPI_IN_PLACE, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, comm);
  MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_FLOAT, out, b.counts.data(), b.offsets.data(), MPI_FLOAT,
                comm);
  wait((MPI_Ialltoall(MPI_IN_PLACE, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, comm, &request), request));
  MPI_Scan(in, out, k_count, MPI_FLOAT, MPI_SUM, comm);
  MPI_Exscan(in, out, k_count, MPI_FLOAT, MPI_SUM, comm);
  wait((MPI_Iscan(in, out, k_count, MPI_FLOAT, MPI_SUM, comm, &request), request));
  wait((MPI_Iexscan(in, out, k_count, MPI_FLOAT, MPI_SUM, comm, &request), request));
  return 8;
}

int between_neighbours(MPI_Comm comm, int ranks) {
  const std::array<int, 1> dimensions{ranks};
  const std::array<int, 1> closed{1};
  MPI_Comm ring = MPI_COMM_NULL;
  MPI_Cart_create(comm, 1, dimensions.data(), closed.data(), 0, &ring);
  Buffers b(2);
  float* const in = b.sent.data();
  float* const out = b.received.data();
  const int* const counts = b.counts.data();
  const int* const offsets = b.offsets.data();
  const MPI_Aint* const wide = b.wide_offsets.data();
  const MPI_Datatype* const types = b.types.data();
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Neighbor_allgather(in, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, ring);
  MPI_Neighbor_allgatherv(in, k_count, MPI_FLOAT, out, counts, offsets, MPI_FLOAT, ring);
  MPI_Neighbor_alltoall(in, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, ring);
  MPI_Neighbor_alltoallv(in, counts, offsets, MPI_FLOAT, out, counts, offsets, MPI_FLOAT, ring);
  MPI_Neighbor_alltoallw(in, counts, wide, types, out, counts, wide, types, ring);
  wait((MPI_Ineighbor_allgather(in, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, ring, &request), request));
  wait((MPI_Ineighbor_allgatherv(in, k_count, MPI_FLOAT, out, counts, offsets, MPI_FLOAT, ring, &request),
        request));
  wait((MPI_Ineighbor_alltoall(in, k_count, MPI_FLOAT, out, k_count, MPI_FLOAT, ring, &request), request));
  wait((MPI_Ineighbor_alltoallv(in, counts, offsets, MPI_FLOAT, out, counts, offsets, MPI_FLOAT, ring,
                                &request),
        request));
  wait((MPI_Ineighbor_alltoallw(in, counts, wide, types, out, counts, wide, types, ring, &request), request));
  MPI_Comm_free(&ring);
  return 10;
}

/// Between the first half of the ranks and the others: roots are in the first half.
int between_halves(MPI_Comm comm, int rank, int ranks) {
  const int half = ranks / 2;
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank < half ? 0 : 1, rank, &own);
  MPI_Comm both = MPI_COMM_NULL;
  MPI_Intercomm_create(own, 0, comm, rank < half ? half : 0, 0, &both);
  const int root = rank >= half ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
  const int made = blocking(both, ranks, root) + nonblocking(both, ranks, root);
  MPI_Comm_free(&both);
  MPI_Comm_free(&own);
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks = 0;
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int made = blocking(MPI_COMM_WORLD, ranks, 0) + nonblocking(MPI_COMM_WORLD, ranks, 0) +
             on_one(MPI_COMM_WORLD, ranks) + between_neighbours(MPI_COMM_WORLD, ranks);
  if (ranks > 1) {
    made += between_halves(MPI_COMM_WORLD, rank, ranks);
  }
  if (rank == 0) {
    std::printf("%d calls made\n", made);
  }
  MPI_Finalize();
  return 0;
}
