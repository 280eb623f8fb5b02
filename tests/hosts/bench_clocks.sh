#!/usr/bin/env bash
# bench_clocks.sh LINK MPIRUN COMMLENS: `bench` between two hosts whose clocks are 1,000 s apart, each way taking 200 µs.
# The clocks are synchronised, the error that is left is printed, and where it is too large the longest local time stands.
set -u
result=$(bash "$(dirname "$0")/two_hosts.sh" "$1" 200 1000 "$2" 2 "$3" bench ping_pong --transport mpi --sizes 8,4M --time 500ms \
  --format json)
code=$?
if [ $code -ne 0 ]; then
  echo "$result"
  exit $code
fi
# The values of a key, one a line.
values() { grep -o "\"$1\": [0-9]*" <<<"$result" | grep -o '[0-9]*$'; }
fail() {
  echo "$1"
  echo "$result"
  exit 1
}
error=$(values clock_error_ns | head -1)
# Half of a round trip of 400 µs at least, twice, since both ranks of a row may be wrong. Above, a busy machine
# decides, and 100 s are a tenth of what the clocks are apart.
[ "${error:-0}" -ge 300000 ] && [ "$error" -lt 100000000000 ] || fail "an error of ${error:-?} ns, not of about 400 µs"
for time in $(values p50_ns); do
  [ "$time" -ge 190000 ] && [ "$time" -lt 100000000000 ] || fail "a message takes $time ns, not 200 µs and more"
done
shortest=$(values p50_ns | sort -n | head -1)
if [ "$error" -gt $((shortest / 5)) ]; then
  grep -q '"local_clock"' <<<"$result" || fail "an error of $error ns is too large for $shortest ns, and nothing says so"
fi
