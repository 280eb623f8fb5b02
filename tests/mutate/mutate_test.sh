#!/usr/bin/env bash
# mutate_test.sh MUTATE COMPILER: what tests/mutate/mutate.py finds in a toy, and that it puts files back.
# Exit 77: there is no Python here.
set -euo pipefail
mutate=$1 compiler=$2
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p commlens/toy

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

cat >commlens/toy/toy.cpp <<'TOY'
// a < b in a comment, and "a < b" in a text, are left alone: 7
const char* text() { return "1 < 2 && true"; }
bool is_tested(int a) { return a > 3; }
bool is_not_tested(int a) { return a > 4; }
int early(int a) {
  if (a == 9) {
    return a;
  }
  return a;
}
TOY
cp commlens/toy/toy.cpp original
# Tests 3, 4 and 5 on one side, nothing of the rest.
cat >toy_test.cpp <<'TEST'
bool is_tested(int a);
bool is_not_tested(int a);
int main() { return is_tested(4) && !is_tested(3) && !is_not_tested(0) && is_not_tested(100) ? 0 : 1; }
TEST
# C++ that needs no header compiles in an instant.
build="$compiler -O0 -o toy_test commlens/toy/toy.cpp toy_test.cpp"
run_mutate() {
  python3 "$mutate" --root "$work" --build "$build" --run "${run:-./toy_test}" "$@"
}

status=0
found=$(run_mutate commlens/toy/toy.cpp) || status=$?
[ "$status" -eq 1 ] || fail "exit $status with survivors, not 1: $found"
cmp commlens/toy/toy.cpp original || fail "the file was not put back"
expected='commlens/toy/toy.cpp:4: `>` -> `>=` in `bool is_not_tested(int a) { return a > 4; }`
commlens/toy/toy.cpp:4: `4` -> `3` in `bool is_not_tested(int a) { return a > 4; }`
commlens/toy/toy.cpp:4: `4` -> `5` in `bool is_not_tested(int a) { return a > 4; }`
commlens/toy/toy.cpp:6: `==` -> `!=` in `if (a == 9) {`
commlens/toy/toy.cpp:6: `9` -> `10` in `if (a == 9) {`
commlens/toy/toy.cpp:6: `9` -> `8` in `if (a == 9) {`
commlens/toy/toy.cpp:6: `a == 9` -> `false && (a == 9)` in `if (a == 9) {`'
listed=$(grep '^commlens/toy/toy.cpp:[0-9]' <<<"$found" | sort)
[ "$listed" = "$(sort <<<"$expected")" ] || fail "other survivors than the seven that nothing tests:
$found"
# `> 3` in three ways: >=, 2 and 4.
grep -q '^mutations: 3 noticed by the tests of their directory, 7 survived (above), 0 did not compile$' <<<"$found" ||
  fail "other counts: $found"

found=$(run_mutate --limit 2 commlens/toy/toy.cpp) && status=0 || status=$?
grep -q '^commlens/toy/toy.cpp: tries 2 of 10 mutations; these survive:$' <<<"$found" || fail "the limit does not hold: $found"

for wrong in commlens/toy/none.cpp toy_test.cpp; do
  run_mutate "$wrong" 2>/dev/null && status=0 || status=$?
  [ "$status" -eq 2 ] || fail "exit $status for $wrong, not 2"
done
run=false run_mutate commlens/toy/toy.cpp >/dev/null 2>&1 && status=0 || status=$?
[ "$status" -eq 2 ] || fail "exit $status where the tests fail unchanged, not 2"

# Interrupted in the middle of a mutation: `run` ends at once on the unchanged file and hangs on a changed one.
cat >hang <<'HANG'
#!/bin/sh
cmp -s commlens/toy/toy.cpp original || exec sleep 60
HANG
chmod +x hang
for signal in INT TERM; do
  python3 "$mutate" --root "$work" --build true --run ./hang commlens/toy/toy.cpp >/dev/null 2>&1 &
  pid=$!
  for ((tries = 0; tries < 300; ++tries)); do
    ! cmp -s commlens/toy/toy.cpp original && break
    sleep 0.1
  done
  [ "$tries" -lt 300 ] || fail "nothing was changed in 30 s"
  kill -"$signal" "$pid"
  wait "$pid" && status=0 || status=$?
  [ "$status" -eq 130 ] || fail "exit $status after SIG$signal, not 130"
  cmp commlens/toy/toy.cpp original || fail "the file was not put back after SIG$signal"
done
