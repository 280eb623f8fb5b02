#!/usr/bin/env bash
# neox_models.sh MODEL LAYOUT…: trains MODEL.yml of GPT-NeoX for two iterations at a short sequence, and demands that
# the recording equals the prediction. LAYOUT are the flags of `commlens train`. Exit 77: no test data.
set -euo pipefail
model=$1
shift
config=${COMMLENS_TEST_DATA:-}/golden/neox_configs/$model.yml
if [ ! -f "$config" ]; then
  echo "COMMLENS_TEST_DATA names no directory with GPT-NeoX configurations"
  exit 77
fi
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$COMMLENS_BINARY" train "$config" --seq 32 --micro-batch 1 --iterations 2 "$@" -o "$directory/trace" >"$directory/out" || {
  status=$?
  tail -20 "$directory/out"
  exit $status
}
last=$(tail -1 "$directory/out")
echo "$last"
[[ $last =~ ^prediction:\ ([0-9]+)\ of\ ([0-9]+)\ calls\ equal$ && ${BASH_REMATCH[1]} -gt 0 && ${BASH_REMATCH[1]} == "${BASH_REMATCH[2]}" ]]
