#!/usr/bin/env bash
# check_binary.sh PROGRAM: the program starts light, so it may link nothing that belongs to floors 4-6.
set -euo pipefail
program=$1
linked=$(ldd "$program")
if heavy=$(grep -iE 'lib(torch|c10|mpi|open-rte|open-pal|pmix|nccl|rccl|cuda|cudart|simgrid|otf2|hwloc|duktape|microhttpd|curl)' <<<"$linked"); then
  printf '%s links what only a module may link:\n%s\n' "$program" "$heavy"
  exit 1
fi
