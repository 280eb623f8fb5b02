#!/usr/bin/env bash
# obeyed_mpich_rules.sh MPIRUN TUNED_JOB COUNTED_SENDS: MPICH obeys each rule that tune writes, and nothing else changes.
# It counts the messages of each rank by their size, so no clock is asked. Exit 77: this MPICH does not send through UCX.
set -u
mpirun=$1 job=$2 sends=$3
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
rules=$directory/rules.json
with_rules=(-genv MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE "$rules")

# counts NAME OPTION… -- MODE…: "rank bytes messages", those of the library and of the program.
counts() {
  local name=$1 options=()
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  "$mpirun" -n 4 -genv LD_PRELOAD "$sends" -genv COUNTED_SENDS "$directory/of.$name" "${options[@]}" "$job" "$@" \
    >"$directory/$name.out" 2>&1 || {
    cat "$directory/$name.out"
    echo "tuned_job $* failed"
    exit 1
  }
  if [ "$(find "$directory" -name "of.$name.*" | wc -l)" -ne 4 ]; then
    echo "no counts of this MPICH"
    exit 77
  fi
  sort -n "$directory/of.$name".* >"$directory/$name"
}

messages() { awk '{ sum += $3 } END { print sum }' "$directory/$1"; }

failed=0
counts chosen -- chosen "$rules"
cat "$directory/chosen.out"
counts plain -- plain
counts obeyed "${with_rules[@]}" -- plain
cmp "$directory/chosen" "$directory/obeyed" || { echo "a rule is not obeyed"; failed=1; }
cmp -s "$directory/chosen" "$directory/plain" && { echo "no rule changes anything"; failed=1; }
counts around -- around
counts around_with_rules "${with_rules[@]}" -- around
cmp "$directory/around" "$directory/around_with_rules" || { echo "a rule changes other calls"; failed=1; }

# All_reduce of 4 MiB over 4 ranks: 16 messages by MPICH's own choice (reduce_scatter and all_gather: each rank sends 2
# log2 4), 8 by recursive doubling (log2 4).
"$job" write-mpich "$rules" 0 4 || exit 1
for name in usual ruled; do
  options=()
  [ $name = ruled ] && options=("${with_rules[@]}")
  for calls in 1 2; do
    counts "$name.$calls" "${options[@]}" -- all-reduce 4 $calls
  done
  sent=$(($(messages $name.2) - $(messages $name.1)))
  expected=$([ $name = ruled ] && echo 8 || echo 16)
  [ $sent = "$expected" ] || { echo "$name: $sent messages instead of $expected"; failed=1; }
done
exit $failed
