#!/usr/bin/env bash
# Runs the commands of a page's ```console blocks ("$ command" lines) in the repository root and compares what they
# print, standard error included, with the lines below them.
#   console_blocks.sh check|update PAGE   COMMLENS_BINARY names the program that `commlens` stands for
set -u
mode=$1
page=$2
cd "$(dirname "$0")/../.." || exit 2
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
ln -s "$(realpath "${COMMLENS_BINARY:?names the program}")" "$bin/commlens"
export PATH="$bin:$PATH" NO_COLOR=1
unset COLUMNS

# The page with every block's output replaced by what the commands print now.
render() {
  local in_block=0 line
  while IFS= read -r line || [ -n "$line" ]; do
    if [ $in_block -eq 1 ] && [ "${line#\$ }" != "$line" ]; then
      printf '%s\n' "$line"
      bash -o pipefail -c "${line#\$ }" 2>&1 </dev/null
    elif [ "$line" = '```console' ]; then
      in_block=1
      printf '%s\n' "$line"
    elif [ "$line" = '```' ] && [ $in_block -eq 1 ]; then
      in_block=0
      printf '%s\n' "$line"
    elif [ $in_block -eq 0 ]; then
      printf '%s\n' "$line"
    fi
  done
}

if ! grep -q '^\$ ' "$page"; then
  echo "$page holds no console commands"
  exit 1
fi
if [ "$mode" = update ]; then
  render <"$page" >"$bin/page" && cat "$bin/page" >"$page"
  exit
fi
render <"$page" | diff -u "$page" - || {
  echo "$page does not show what its commands print; run tests/docs/console_blocks.sh update $page"
  exit 1
}
