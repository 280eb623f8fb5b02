#!/usr/bin/env bash
# counted_bytes.sh MOST MPIRUN RANKS COMMAND…: over Open MPI, which counts them, no rank sends more than MOST bytes.
# Exit 77: this Open MPI cannot count.
set -u
most=$1 mpirun=$2 ranks=$3
shift 3
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$mpirun" --oversubscribe --mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3 \
  --mca pml_monitoring_filename "$directory/of" -n "$ranks" "$@" || exit 1
files=$(find "$directory" -name 'of.*.prof' | wc -l)
if [ "$files" -ne "$ranks" ]; then
  echo "no counts of this Open MPI: $files files of $ranks ranks"
  exit 77
fi
# I: messages of the library itself, E: of the program; from, to, bytes.
awk -v most="$most" '
  /^[IE]\t/ { sent[FILENAME] += $4 }
  END {
    for (file in sent) { if (sent[file] > largest) { largest = sent[file] } }
    printf "a rank sends at most %d bytes; allowed: %d\n", largest, most
    exit !(largest > 0 && largest <= most)
  }' "$directory"/of.*.prof
