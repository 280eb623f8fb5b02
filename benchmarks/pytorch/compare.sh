#!/bin/sh
# Step times of `commlens train 19M` on one rank against the same model in PyTorch eager, in one session: the two
# alternate, so that both meet the same load. Prints each round, then the ratio of the medians of all warm steps
# (below 1: commlens is faster).
#   benchmarks/pytorch/compare.sh [bf16|fp32]
# Environment: COMMLENS (build/release/commlens), PYTHON (/usr/bin/python3), THREADS (all cores), ROUNDS (5),
# STEPS (6 a round, the first 2 cold), SEQ (512), BATCH (4).
set -eu
cd "$(dirname "$0")/../.."
dtype=${1:-bf16}
commlens=${COMMLENS:-build/release/commlens}
python=${PYTHON:-/usr/bin/python3}
threads=${THREADS:-$(nproc)}
rounds=${ROUNDS:-5}
steps=${STEPS:-6}
seq=${SEQ:-512}
batch=${BATCH:-4}
cold=2
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
export OMP_NUM_THREADS="$threads" OPENBLAS_NUM_THREADS="$threads"

run_commlens() {
  "$commlens" train 19M --ranks 1 --seq "$seq" --micro-batch "$batch" --dtype "$dtype" --recompute none --iterations "$steps" \
    --threads "$threads" --data synthetic -o "$results/trace" --format json >"$results/commlens.$1" 2>"$results/log"
  rm -rf "$results/trace"
}

run_pytorch() {
  "$python" benchmarks/pytorch/train_gpt.py --layers 6 --hidden 512 --heads 8 --sequence "$seq" --batch "$batch" \
    --vocab 50304 --dtype "$dtype" --threads "$threads" --iterations "$steps" --cold "$cold" >"$results/pytorch.$1"
}

report() {
  "$python" - "$results" "$cold" "$@" <<'PYTHON'
import json, pathlib, statistics, sys

folder, cold, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
ours, theirs = [], []
for name in rounds:
    run = json.loads((folder / f"commlens.{name}").read_text())
    ours += [step["time_s"] for step in run["iterations"]][cold:]
    theirs += json.loads((folder / f"pytorch.{name}").read_text())["steps_s"][cold:]
medians = statistics.median(ours), statistics.median(theirs)
print(f"{'round ' + rounds[0] if len(rounds) == 1 else 'all':8} commlens {medians[0]:7.3f} s  "
      f"pytorch {medians[1]:7.3f} s  ratio {medians[0] / medians[1]:.3f}  "
      f"fastest {min(ours):.3f} s / {min(theirs):.3f} s = {min(ours) / min(theirs):.3f}")
PYTHON
}

echo "19M, $dtype, sequence $seq, micro-batch $batch, $threads threads; medians of steps"
round=1
names=""
while [ "$round" -le "$rounds" ]; do
  run_commlens "$round" || { cat "$results/log" >&2; exit 1; }
  run_pytorch "$round"
  report "$round"
  names="$names $round"
  round=$((round + 1))
done
# shellcheck disable=SC2086  # one argument per round
report $names
