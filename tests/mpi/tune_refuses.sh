#!/usr/bin/env bash
# tune_refuses.sh COMMLENS MPIRUN…: one of two ranks does not have the file. The job ends at once with exit code 2, and
# that rank alone says why.
set -u
commlens=$(realpath "$1")
shift
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
mkdir "$directory/0" "$directory/1"
cat >"$directory/0/model.yml" <<END
num_layers: 2
hidden_size: 32
num_attention_heads: 4
seq_length: 16
max_position_embeddings: 16
END
# shellcheck disable=SC2016  # each rank's shell has its own rank
timeout -k 5 60 "$@" bash -c 'cd "$0/${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" && exec "$1" tune --messages model.yml \
  --ranks 2 --vocab 64 --transport mpi --rounds 60' "$directory" "$commlens" >"$directory/out" 2>&1
code=$?
if [ $code -ne 2 ] || [ "$(grep -c '^commlens: ' "$directory/out")" -ne 1 ] ||
  ! grep -q '^commlens: .*model.yml' "$directory/out"; then
  cat "$directory/out"
  echo "exit code $code"
  exit 1
fi
