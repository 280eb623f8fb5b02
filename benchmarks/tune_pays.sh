#!/usr/bin/env bash
# tune_pays.sh COMMLENS STEP_MESSAGES MPIRUN RANKS LAUNCHES: whether the gain that tune states is there in other launches.
# Tunes the messages of $MODEL (19M with ZeRO-3) over Open MPI by LAUNCHES jobs, then launches as many with and without the
# rules in turns, the order of each pair by chance, and prints the time of the step's messages with rules in each launch,
# and the median of the differences with its interval (order statistics of 10 pairs: the second and the ninth, 98 %).
set -eu
commlens=$1 step=$2 mpirun=$3 ranks=$4 launches=${5:-10}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
read -ra model <<<"${MODEL:-19M --zero 3} --dp $ranks"
for ((launch = 1; launch <= launches; ++launch)); do
  "$mpirun" --oversubscribe -n "$ranks" "$commlens" tune --messages "${model[@]}" --transport mpi --time "${TIME:-3}" \
    --append "$directory/launches.json" --seed $launch --write-openmpi "$directory/rules" --write-transports "$directory/table" \
    >"$directory/said"
done
cat "$directory/said"
if ! grep -q '^[1-9][0-9]*  # collectives' "$directory/rules"; then
  echo "no rule: nothing to reproduce"
  exit 0
fi
rules=(--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename "$directory/rules")
launch() {
  if [ "$1" = ruled ]; then set -- "${rules[@]}"; else set --; fi
  "$mpirun" --oversubscribe "$@" -n "$ranks" "$step" "${ROUNDS:-200}" "$directory/table" "${model[@]}"
}
for ((pair = 0; pair < launches; ++pair)); do
  if ((RANDOM % 2)); then
    usual=$(launch usual)
    ruled=$(launch ruled)
  else
    ruled=$(launch ruled)
    usual=$(launch usual)
  fi
  echo "$usual $ruled" | tee -a "$directory/pairs" | awk '{ printf "usual %.1f us, with rules %.1f us: gain %+.1f us\n", 1e6 * $1, 1e6 * $2, 1e6 * ($1 - $2) }'
done
awk '{ print $1 - $2 }' "$directory/pairs" | sort -g | awk '
  { gain[NR] = $1 }
  END {
    skipped = NR >= 9 ? 2 : 1
    printf "median gain %+.1f us [%+.1f, %+.1f] of %d pairs\n", 1e6 * (gain[int((NR + 1) / 2)] + gain[int(NR / 2) + 1]) / 2,
      1e6 * gain[skipped], 1e6 * gain[NR + 1 - skipped], NR
  }'
