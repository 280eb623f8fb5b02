#!/usr/bin/env bash
# threads_under_tsan.sh PROGRAM: records four threads on two ranks, over Open MPI, with the capture library under the thread
# sanitizer (target capture_threads_tsan of the preset tsan), into files that grow and into rings that go round. Exit 0: no
# race, and both ranks were recorded to their end.
set -euo pipefail
program=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
mpirun=$(command -v mpirun.openmpi || command -v mpirun)
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export TSAN_OPTIONS="suppressions=$here/tsan.supp ignore_noninstrumented_modules=1 halt_on_error=1 exitcode=66"

# record NAME
record() {
  local rank expected
  COMMLENS_TRACE=$directory/$1 "$mpirun" --oversubscribe -n 2 "$program" threads "$directory"
  for rank in 0 1; do
    expected=$(wc -l <"$directory/expected-$rank.txt")
    if ! tail -1 "$directory/$1/rank-$rank.jsonl" | grep -q "\"closed\": {\"events\": $expected, \"dropped\": 0,"; then
      echo "$1, rank $rank: $expected calls expected, recorded: $(tail -1 "$directory/$1/rank-$rank.jsonl")" >&2
      exit 1
    fi
  done
  echo "threads under tsan, $1: $expected calls of each of 2 ranks recorded, no race"
}

record file
COMMLENS_RING=64 record ring
