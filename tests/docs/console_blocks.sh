#!/usr/bin/env bash
# Runs the commands of a page's ```console blocks ("$ command" lines) in the repository root and compares what they
# print, standard error included, with the lines below them. Blocks that begin with ```console times show what differs from
# run to run: there every command must succeed, numbers with their units count as equal, "…" is any text, and a line of "…"
# any lines, or none. `update` leaves those blocks as they are.
#   console_blocks.sh check|update PAGE   COMMLENS_BINARY names the program that `commlens` stands for
set -u
mode=$1
page=$2
cd "$(dirname "$0")/../.." || exit 2
: "${COMMLENS_BINARY:?names the program}"  # before anything is written
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
ln -s "$(realpath "$COMMLENS_BINARY")" "$bin/commlens"
export PATH="$bin:$PATH" NO_COLOR=1
unset COLUMNS

# Text with # for each number and its unit, and one space for several.
masked() {
  sed -E 's/(^|[^A-Za-z_0-9])[-+]?[0-9][0-9,.]*(e[-+]?[0-9]+)?( (ns|µs|ms|s|B|[KMGT]iB|[kKMGT]?B\/s|%|times)(\/s)?)?/\1#/g; s/ +/ /g; s/ $//'
}

# timed COMMAND SHOWN: prints SHOWN if that is what the command prints, else what it prints.
timed() {
  local printed status pattern shown=$2
  printed=$(bash -o pipefail -c "$1" 2>&1 </dev/null)
  status=$?
  pattern=$(masked <<<"${shown//$'…\n'/…}" | sed -E 's/[][\\*?]/\\&/g; s/ ?…/*/g')
  # shellcheck disable=SC2053  # it is a pattern
  if [ $status -eq 0 ] && [[ $(masked <<<"$printed") == $pattern ]]; then
    printf '%s' "$shown"
  else
    printf '%s\nexit code %s\n' "$printed" $status
  fi
}

# The page with every block's output replaced by what the commands print now.
render() {
  local block=none line command='' shown=''
  while IFS= read -r line || [ -n "$line" ]; do
    if [ $block = times ] && [ -n "$command" ] && { [ "$line" = '```' ] || [ "${line#\$ }" != "$line" ]; }; then
      [ "$mode" = update ] && printf '%s' "$shown" || timed "$command" "$shown"
      command='' shown=''
    fi
    if [ $block != none ] && [ "${line#\$ }" != "$line" ]; then
      printf '%s\n' "$line"
      if [ $block = times ]; then
        command=${line#\$ }
      else
        bash -o pipefail -c "${line#\$ }" 2>&1 </dev/null
      fi
    elif [ "$line" = '```console' ] || [ "$line" = '```console times' ]; then
      block=$([ "$line" = '```console' ] && echo exact || echo times)
      printf '%s\n' "$line"
    elif [ "$line" = '```' ] && [ $block != none ]; then
      block=none
      printf '%s\n' "$line"
    elif [ $block = none ]; then
      printf '%s\n' "$line"
    elif [ $block = times ]; then
      shown+=$line$'\n'
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
