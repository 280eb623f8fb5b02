#!/usr/bin/env bash
# obeyed_rules.sh MPIRUN TUNED_JOB: Open MPI obeys each rule that tune writes, and nothing else changes. It counts the
# messages of each pair of ranks, so no clock is asked. Exit 77: this Open MPI cannot count.
set -u
mpirun=$1 job=$2
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
rules=$directory/rules.conf
with_rules=(--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename "$rules")

# counts NAME MCA… -- MODE…: "from to bytes messages" of each pair, those of the library and of the program.
counts() {
  local name=$1 mca=()
  shift
  while [ "$1" != -- ]; do mca+=("$1"); shift; done
  shift
  "$mpirun" --oversubscribe --mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3 \
    --mca pml_monitoring_filename "$directory/of.$name" "${mca[@]}" -n 8 "$job" "$@" >"$directory/$name.out" || {
    cat "$directory/$name.out"
    echo "tuned_job $* failed"
    exit 1
  }
  if [ "$(find "$directory" -name "of.$name.*.prof" | wc -l)" -ne 8 ]; then
    echo "no counts of this Open MPI"
    exit 77
  fi
  awk -F'\t' '/^[IE]\t/ { split($5, messages, " "); print $1, $2, $3, $4 + 0, messages[1] }' \
    "$directory/of.$name".*.prof | sort >"$directory/$name"
}

# Messages of all ranks in a job.
messages() { awk '{ sum += $5 } END { print sum }' "$directory/$1"; }

expect() {
  if [ "$2" != "$3" ]; then
    echo "$1: $2 instead of $3"
    failed=1
  fi
}

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

# 4 MiB over 4 ranks: 16 messages by Open MPI's own choice, 24 by a ring (each of 4 ranks sends 2 (4 - 1)); over 8
# ranks, where there is no rule, 48 stay 48.
cat >"$rules" <<END
1
2
4
0
1
0 0 0 0
2
1
0 0 0 0
4
3
0 0 0 0
4194304 4 0 0
4194305 0 0 0
5
1
0 0 0 0
END
for ranks in 4 8; do
  for name in usual ruled; do
    mca=()
    [ $name = ruled ] && mca=("${with_rules[@]}")
    for calls in 1 2; do
      counts "$name.$ranks.$calls" "${mca[@]}" -- all-reduce $ranks $calls
    done
    expect "$name, $ranks ranks" $(($(messages $name.$ranks.2) - $(messages $name.$ranks.1))) \
      "$([ $ranks = 8 ] && echo 48 || { [ $name = ruled ] && echo 24 || echo 16; })"
  done
done
exit $failed
