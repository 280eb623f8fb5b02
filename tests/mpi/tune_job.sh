#!/usr/bin/env bash
# tune_job.sh openmpi|mpich ENGINE COMMLENS MPIRUN…: a job tunes the messages of a small model, the same job runs with
# the file that it wrote, and a training with the table (ENGINE 1: there is an engine to train with). Whether the table
# counts, table_obeyed.sh says.
set -u
library=$1 engine=$2 commlens=$3
shift 3
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
model=(--layers 2 --hidden 32 --heads 4 --seq 16 --vocab 256 --dp 2 --zero 1 --framework commlens)
tune() {
  "$@" "$commlens" tune --messages 19M "${model[@]}" --transport mpi --rounds 60 --min-gain 0 --format json --write-transports "$directory/table.csv" \
    --write-$library "$directory/rules" >"$directory/out" 2>"$directory/err" || {
    cat "$directory/out" "$directory/err"
    exit 1
  }
  # One process prints, and says what it found.
  if [ "$(grep -c '"schema": "commlens.tune/1"' "$directory/out")" -ne 1 ] || ! grep -q '"verdict": "\(no rule\|rules\)"' "$directory/out"; then
    cat "$directory/out"
    exit 1
  fi
  grep '"algorithm": "' "$directory/out" | sort | uniq -c
  cp "$directory/rules" "$directory/earlier"
}
tune "$@"
head -3 "$directory/rules"
if [ "$library" = openmpi ]; then
  tune "$@" --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename "$directory/earlier"
else
  export MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=$directory/earlier
  tune "$@"
fi
# train TABLE: into "$directory/out".
train() {
  "${job[@]}" "$commlens" train 19M "${model[@]}" --iterations 1 --threads 1 --transport mpi --transports "$1" \
    -o "$directory/trace" >"$directory/out" 2>&1
}
job=("$@")
if [ "$engine" = 1 ]; then
  train "$directory/table.csv" || { cat "$directory/out" "$directory/table.csv"; echo "no training with the table"; exit 1; }
  printf 'op,min_bytes,max_bytes,ranks,transport,algorithm\nall_reduce,0,,,mpi,nonsense\n' >"$directory/planted.csv"
  train "$directory/planted.csv"
  if [ $? -eq 0 ] || ! grep -q 'planted.csv.*no algorithm nonsense\|line 2: .*no algorithm nonsense' "$directory/out"; then
    cat "$directory/out"
    echo "an algorithm that is none is not refused"
    exit 1
  fi
fi
if [ "$library" = openmpi ]; then other=mpich; else other=openmpi; fi
if "$@" "$commlens" tune --messages 19M --dp 2 --transport mpi --write-$other "$directory/other" >"$directory/out" 2>&1 ||
  ! grep -q -- "--write-$other: only a job over" "$directory/out"; then
  cat "$directory/out"
  echo "rules of $other are not refused"
  exit 1
fi
