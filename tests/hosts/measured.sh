#!/usr/bin/env bash
# measured.sh COMMLENS: one rank of a job over two hosts whose clocks are 1,000 s apart. The first one reads what bench
# wrote: times are on one clock (nothing takes 100 s), and it says how far the clocks may still be apart.
set -euo pipefail
result=$(mktemp)
trap 'rm -f "$result"' EXIT
"$1" bench all_reduce --transport mpi --sizes 8 --time 100ms --json "$result" >/dev/null
[ "${OMPI_COMM_WORLD_RANK:?started by mpirun}" -eq 0 ] || exit 0

numbers() {
  grep -o "\"$1\": [0-9]*" "$result" | grep -o '[0-9]*$'
}
for key in p50_ns entry_skew_ns clock_error_ns; do
  for ns in $(numbers "$key"); do
    if [ "$ns" -ge 100000000000 ]; then
      echo "$key is $ns"
      exit 1
    fi
  done
done
error=$(numbers clock_error_ns | head -n 1)
if [ "$error" -le 0 ]; then
  echo "clocks of two hosts cannot be known exactly, clock_error_ns is $error"
  exit 1
fi
echo "P50 $(numbers p50_ns | head -n 1) ns, clocks within $error ns"
