#!/usr/bin/env bash
# every_verb.sh COMMLENS PAGE: whether the page has a section of each verb that the program lists.
set -euo pipefail
verbs=$("$1" --help | awk '/^Subcommands:/ {on = 1; next} on && NF {print $1}')
[ -n "$verbs" ] || { echo "the program lists no verbs"; exit 1; }
status=0
for verb in $verbs; do
  grep -qx "## $verb" "$2" || { echo "$2 has no section of $verb"; status=1; }
done
exit $status
