#!/usr/bin/env bash
# Runs a command five times; every line that it prints ends in "ok" in four of them, by the lines' first words.
#   four_of_five.sh COMMAND…
set -u
out=$(for _ in 1 2 3 4 5; do "$@" || echo "failed failed"; done)
echo "$out"
echo "$out" | awk '{ runs[$1]++; good[$1] += ($NF == "ok") }
                   END { for (word in runs) if (good[word] < 4) { print word ": " good[word] " of " runs[word]; bad = 1 }
                         exit bad }'
