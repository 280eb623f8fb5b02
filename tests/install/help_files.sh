#!/usr/bin/env bash
# help_files.sh PROGRAM: the completion and the manual pages that the program writes are understood by their readers. Of zsh
# and groff, which need not be installed, what is there is asked.
set -euo pipefail
program=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$program" help-files "$work/share"

fail() {
  echo "$*" >&2
  exit 1
}

# completed WORD…: what bash offers for the last of these words of a command line, sorted, in one line.
# shellcheck disable=SC1091
completed() {
  (
    cd "$work"
    compopt() { :; }  # of a completion that bash itself has started
    source share/bash-completion/completions/commlens
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _commlens
    printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | paste -sd' '

  )
}

# expect OFFERED WORD…
expect() {
  local offered
  offered=$(completed "${@:2}")
  [ "$offered" = "$1" ] || fail "${*:2}: '$offered' is offered, not '$1'"
}

bash -n "$work/share/bash-completion/completions/commlens"
touch "$work/trace one.jsonl" "$work/train.yml"
mkdir "$work/trace"
expect "predict" commlens pre
expect "import" commlens i
expect "--micro-batch --micro-batches" commlens predict --micro
expect "cold" commlens predict 1.3B --iteration c
expect "cold" commlens predict --iteration = c
expect "json" commlens summary --format = j
expect "fp16 fp32" commlens predict --dtype fp
expect "deepspeed" commlens compare --framework d
expect "constant cosine" commlens train --decay c
expect "calls chakra csv" commlens export x --to c
expect "trace trace one.jsonl" commlens summary trac
expect "train.yml" commlens predict trai
expect "1.3B 125M 13B 175B 19M" commlens predict 1
expect "trace" commlens train 19M -o tr
expect "" commlens predict --ranks 1
expect "--nccl --no-summary" commlens record --n
[[ " $(completed commlens record -- ls) " == *" ls "* ]] || fail "record -- ls: a command is not offered"
expect "train.yml" commlens record -- ls trai

# Every option that help shows has a line in the manual page and is offered by both shells.
verbs=$("$program" --help | sed -n '/^Subcommands:/,$s/^  \([a-z]*\) .*/\1/p')
[ "$(wc -w <<<"$verbs")" -ge 10 ] || fail "verbs: $verbs"
for verb in $verbs; do
  page=$work/share/man/man1/commlens-$verb.1
  for option in $("$program" "$verb" --help | grep -o '^  [^ ]*--[a-z0-9-]*' | grep -o -- '--[a-z0-9-]*'); do
    grep -qF -- "\\fB${option//-/\\-}\\fR" "$page" || fail "$page lacks $option"
    [[ " $(completed commlens "$verb" "$option") " == *" $option "* ]] || fail "bash does not complete $verb $option"
    grep -qF -- "$option[" "$work/share/zsh/site-functions/_commlens" || fail "zsh does not complete $option"
  done
done

if command -v zsh >/dev/null; then
  zsh -n "$work/share/zsh/site-functions/_commlens"
fi
if command -v groff >/dev/null; then
  for page in "$work"/share/man/man1/*.1; do
    warnings=$(groff -man -Tutf8 -ww "$page" 2>&1 >/dev/null)
    [ -z "$warnings" ] || fail "$warnings"
  done
fi
