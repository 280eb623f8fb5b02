#!/usr/bin/env bash
# job_fails.sh TEXT COMMAND…: the command ends by itself within two minutes, fails, and prints TEXT.
set -u
text=$1
shift
said=$(timeout -k 5 120 "$@" 2>&1)
status=$?
if [ $status -eq 0 ] || [ $status -eq 124 ] || [[ $said != *"$text"* ]]; then
  printf 'exit code %d (124: it did not end), and this is not what should be said (%s):\n%s\n' $status "$text" "$said"
  exit 1
fi
