"""More than ten different calls of mpi4py that state what each moves: mpi4py_calls.py DIRECTORY. At least two ranks.

Lower-case functions of mpi4py move pickled objects, whose sizes mpi4py decides; only buffers are used here.
"""
import sys
from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
n = world.Get_size()
r = world.Get_rank()
EVERYONE = ",".join(str(rank) for rank in range(n))
expected = open(f"{sys.argv[1]}/expected-{r}.txt", "w")


def expect(name, kind, dtype, given, taken, ranks=EVERYONE, root=-1):
    print(r, name, kind, dtype, given, taken, ranks, root, file=expected)


def doubles(count):
    return array("d", [float(r)] * count)


def ints(count):
    return array("i", [r] * count)


for _ in range(3):
    world.Bcast([doubles(100), MPI.DOUBLE], root=0)
    expect("MPI_Bcast", "broadcast", "fp64", 100, 100, root=0)
world.Allreduce(MPI.IN_PLACE, [ints(7), MPI.INT], op=MPI.SUM)
expect("MPI_Allreduce", "all_reduce", "int32", 7, 7)
world.Reduce([doubles(5), MPI.DOUBLE], [doubles(5), MPI.DOUBLE] if r == 1 else None, root=1)
expect("MPI_Reduce", "reduce", "fp64", 5, 5, root=1)
world.Allgather([doubles(3), MPI.DOUBLE], [doubles(3 * n), MPI.DOUBLE])
expect("MPI_Allgather", "all_gather", "fp64", 3, 3 * n)
counts = [rank + 2 for rank in range(n)]
places = [sum(counts[:rank]) for rank in range(n)]
world.Allgatherv([doubles(r + 2), MPI.DOUBLE], [doubles(sum(counts)), counts, places, MPI.DOUBLE])
expect("MPI_Allgatherv", "all_gather", "fp64", r + 2, sum(counts))
world.Alltoall([ints(4 * n), MPI.INT], [ints(4 * n), MPI.INT])
expect("MPI_Alltoall", "all_to_all", "int32", 4 * n, 4 * n)
given = [r + rank for rank in range(n)]  # to each rank; and as many from each
spots = [16 * rank for rank in range(n)]
world.Alltoallv([ints(16 * n), given, spots, MPI.INT], [ints(16 * n), given, spots, MPI.INT])
expect("MPI_Alltoallv", "all_to_all", "int32", sum(given), sum(given))
world.Reduce_scatter([doubles(sum(counts)), MPI.DOUBLE], [doubles(r + 2), MPI.DOUBLE], counts)
expect("MPI_Reduce_scatter", "reduce_scatter", "fp64", sum(counts), r + 2)
world.Gatherv([ints(r + 2), MPI.INT], [ints(sum(counts)), counts, places, MPI.INT] if r == 0 else None, root=0)
expect("MPI_Gatherv", "other", "int32", r + 2, sum(counts) if r == 0 else 0, root=0)
world.Scatter([doubles(2 * n), MPI.DOUBLE] if r == 0 else None, [doubles(2), MPI.DOUBLE], root=0)
expect("MPI_Scatter", "other", "fp64", 2 * n if r == 0 else 0, 2, root=0)
world.Scan([doubles(6), MPI.DOUBLE], [doubles(6), MPI.DOUBLE])
expect("MPI_Scan", "other", "fp64", 6, 6)
world.Barrier()
expect("MPI_Barrier", "barrier", "uint8", 0, 0)

sub = world.Split(color=r % 2, key=r)
members = ",".join(str(rank) for rank in range(r % 2, n, 2))
ours, sums = doubles(11), doubles(11)  # must live until the call is complete
request = sub.Iallreduce([ours, MPI.DOUBLE], [sums, MPI.DOUBLE])
request.Wait()
expect("MPI_Iallreduce", "all_reduce", "fp64", 11, 11, members)
sub.Bcast([ints(12), MPI.INT], root=0)
expect("MPI_Bcast", "broadcast", "int32", 12, 12, members, root=0)
sub.Free()

after, before = (r + 1) % n, (r - 1) % n
box, message = doubles(64), doubles(20 + r)
requests = [world.Irecv([box, MPI.DOUBLE], source=MPI.ANY_SOURCE, tag=1),
            world.Isend([message, MPI.DOUBLE], dest=after, tag=1)]
MPI.Request.Waitall(requests)
expect("MPI_Irecv", "recv", "fp64", 0, 20 + before, f"{before},{r}")  # 64 would have fitted
expect("MPI_Isend", "send", "fp64", 20 + r, 0, f"{r},{after}")
world.Sendrecv([ints(9), MPI.INT], dest=after, recvbuf=[ints(9), MPI.INT], source=before)
expect("MPI_Sendrecv", "send", "int32", 9, 0, f"{r},{after}")
expect("MPI_Sendrecv", "recv", "int32", 0, 9, f"{before},{r}")
column = MPI.DOUBLE.Create_vector(3, 1, 4).Commit()  # 3 of 12 doubles: 24 bytes
world.Bcast([doubles(12), 1, column], root=0)
expect("MPI_Bcast", "broadcast", "uint8", 24, 24, root=0)
column.Free()
expected.close()
