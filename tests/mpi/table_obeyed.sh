#!/usr/bin/env bash
# table_obeyed.sh MPIRUN COMMLENS: train takes the algorithms of its table of transports. Over 4 ranks an all_reduce of
# Open MPI sends 8 messages by recursive doubling (each rank one in each of 2 steps), and 24 by a ring (each rank
# 2 (4 - 1)); the rest of the two jobs is the same. Exit 77: this Open MPI cannot count.
set -u
mpirun=$1 commlens=$2
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
iterations=2
model=(19M --ranks 4 --zero 0 --framework commlens --layers 2 --hidden 32 --heads 4 --seq 16 --vocab 256)

# messages ALGORITHM: of all ranks of a job whose sums of gradients are made with it.
messages() {
  printf 'op,min_bytes,max_bytes,ranks,transport,algorithm\nall_reduce,1024,,4,mpi,%s\n' "$1" >"$directory/table.csv"
  "$mpirun" --oversubscribe --mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3 \
    --mca pml_monitoring_filename "$directory/of.$1" -n 4 "$commlens" train "${model[@]}" --iterations $iterations \
    --threads 1 --transport mpi --transports "$directory/table.csv" -o "$directory/$1" >"$directory/out" 2>&1 || {
    cat "$directory/out" >&2
    exit 1
  }
  awk -F'\t' '/^[IE]\t/ { split($5, messages, " "); sum += messages[1] } END { print sum + 0 }' "$directory/of.$1".*.prof
}

doubling=$(messages recursive_doubling) || exit 1
ring=$(messages ring) || exit 1
[ "$doubling" -gt 0 ] || { echo "no counts of this Open MPI"; exit 77; }
# One all_reduce of gradients an iteration, of 82 KiB.
expected=$((iterations * (24 - 8)))
if [ $((ring - doubling)) -ne $expected ]; then
  echo "$doubling messages by recursive doubling and $ring by a ring; the difference should be $expected"
  exit 1
fi
