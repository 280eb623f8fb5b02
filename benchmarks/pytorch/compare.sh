#!/bin/sh
# Step times of `commlens train 19M` on one rank against the same model in PyTorch, in one session: the runs
# alternate, so that all meet the same load. Prints each round, then the ratio of the medians of all warm steps
# (below 1: commlens is faster).
#   benchmarks/pytorch/compare.sh [bf16|fp32] [eager|flash|both]
# flash: `--attention flash` against scaled_dot_product_attention; PyTorch and the LibTorch of commlens must be 2.1 or
# later, best of one version.
# Environment: COMMLENS (build/release/commlens), PYTHON (/usr/bin/python3), THREADS (all cores), ROUNDS (5),
# STEPS (6 a round, the first 2 cold), SEQ (512), BATCH (4).
set -eu
cd "$(dirname "$0")/../.."
dtype=${1:-bf16}
case ${2:-eager} in
  both) attentions="eager flash" ;;
  *) attentions=${2:-eager} ;;
esac
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

# run_commlens ATTENTION ROUND
run_commlens() {
  "$commlens" train 19M --ranks 1 --seq "$seq" --micro-batch "$batch" --dtype "$dtype" --recompute none --iterations "$steps" \
    --threads "$threads" --attention "$1" --data synthetic -o "$results/trace" --format json \
    >"$results/commlens.$1.$2" 2>"$results/log"
  rm -rf "$results/trace"
}

# run_pytorch ATTENTION ROUND
run_pytorch() {
  "$python" benchmarks/pytorch/train_gpt.py --layers 6 --hidden 512 --heads 8 --sequence "$seq" --batch "$batch" \
    --vocab 50304 --dtype "$dtype" --threads "$threads" --iterations "$steps" --cold "$cold" \
    --attention "$([ "$1" = flash ] && echo sdpa || echo eager)" >"$results/pytorch.$1.$2"
}

# report ROUND…: of these rounds together
report() {
  "$python" - "$results" "$cold" "$attentions" "$@" <<'PYTHON'
import json, pathlib, statistics, sys

directory, cold, attentions, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(), sys.argv[4:]
name = f"round {rounds[0]}" if len(rounds) == 1 else "all"
medians = {}
for attention in attentions:
    ours, theirs = [], []
    for number in rounds:
        run = json.loads((directory / f"commlens.{attention}.{number}").read_text())
        if run["attention"] != attention:
            sys.exit(f"commlens trained with {run['attention']} attention: its LibTorch has no other")
        ours += [step["time_s"] for step in run["iterations"]][cold:]
        theirs += json.loads((directory / f"pytorch.{attention}.{number}").read_text())["steps_s"][cold:]
    medians[attention] = statistics.median(ours), statistics.median(theirs)
    print(f"{name:8} {attention:5} commlens {medians[attention][0]:7.3f} s  pytorch {medians[attention][1]:7.3f} s  "
          f"ratio {medians[attention][0] / medians[attention][1]:.3f}  "
          f"fastest {min(ours):.3f} s / {min(theirs):.3f} s = {min(ours) / min(theirs):.3f}")
if len(attentions) == 2:
    print(f"{name:8} flash to eager: commlens {medians['flash'][0] / medians['eager'][0]:.3f}, "
          f"pytorch {medians['flash'][1] / medians['eager'][1]:.3f}")
PYTHON
}

echo "19M, $dtype, sequence $seq, micro-batch $batch, $threads threads; medians of steps"
round=1
names=""
while [ "$round" -le "$rounds" ]; do
  for attention in $attentions; do
    run_commlens "$attention" "$round" || { cat "$results/log" >&2; exit 1; }
    run_pytorch "$attention" "$round"
  done
  report "$round"
  names="$names $round"
  round=$((round + 1))
done
# shellcheck disable=SC2086  # one argument per round
report $names
