#!/usr/bin/env bash
# every_collective.sh MPIRUN RANKS PROGRAM TUNED_JOB: every collective of MPI 3 runs with rules that tune writes for
# MPICH; and it reads them, since it ends a job whose file lacks one.
set -u
mpirun=$1 ranks=$2 program=$3 job=$4
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
export MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=$directory/rules.json
for which in -1 0 1 2; do
  "$job" write-mpich "$directory/rules.json" $which "$ranks" || exit 1
  "$mpirun" -n "$ranks" "$program" || { echo "rules $which on $ranks ranks"; exit 1; }
done
sed -i 's/"collective=allgather"/"collective=iallgather"/' "$directory/rules.json"
if timeout 60 "$mpirun" -n "$ranks" "$program" >"$directory/out" 2>&1; then
  echo "MPICH does not read the file"
  exit 1
fi
