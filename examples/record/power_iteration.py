"""The largest eigenvalue of a matrix whose rows are divided among the ranks.

    commlens record -- mpirun -n 4 python3 examples/record/power_iteration.py

It knows nothing of commlens, which finds the steps because the same calls come again and again.
"""
from array import array
from math import sqrt

from mpi4py import MPI

SIZE = 64
STEPS = 20

world = MPI.COMM_WORLD
rows = SIZE // world.Get_size()
first = rows * world.Get_rank()
shift = array("d", [3.0] if world.Get_rank() == 0 else [0.0])
world.Bcast([shift, MPI.DOUBLE], root=0)


def entry(row, column):
    return shift[0] if row == column else 1.0 if abs(row - column) == 1 else 0.0


vector = array("d", [1.0] * SIZE)
for _ in range(STEPS):
    product = array("d", (sum(entry(row, column) * vector[column] for column in range(SIZE))
                          for row in range(first, first + rows)))
    square = array("d", [sum(value * value for value in product)])
    total = array("d", [0.0])
    world.Allreduce([square, MPI.DOUBLE], [total, MPI.DOUBLE], op=MPI.SUM)
    norm = sqrt(total[0])
    scaled = array("d", (value / norm for value in product))
    world.Allgather([scaled, MPI.DOUBLE], [vector, MPI.DOUBLE])
if world.Get_rank() == 0:
    print(f"largest eigenvalue: {norm:.3f}")
