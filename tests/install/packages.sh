#!/usr/bin/env bash
# packages.sh BUILD CPACK: the Debian packages of program and library hold what they should, depend on nothing heavy, and run
# from where they are unpacked. Exit 77 (skipped) without Debian's tools. debian.sh installs all of them.
set -euo pipefail
build=$1 cpack=$2
command -v dpkg-shlibdeps >/dev/null || { echo "dpkg-dev is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "$*" >&2
  exit 1
}

"$cpack" --config "$build/CPackConfig.cmake" -B "$work" -D "CPACK_COMPONENTS_ALL=program;library" >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
[ "$(find "$work" -maxdepth 1 -name '*.deb' | wc -l)" -eq 2 ] || fail "not two packages: $(ls "$work")"
for package in "$work"/*.deb; do
  depends=$(dpkg-deb -f "$package" Depends)
  echo "$(dpkg-deb -f "$package" Package): $depends"
  case $depends in
    *torch* | *mpi* | *otf2* | *simgrid* | *trace-format* | "") fail "${package##*/} depends on: $depends" ;;
  esac
  dpkg-deb -x "$package" "$work/root"
done
env -u COMMLENS_MODULE_PATH "$work/root/usr/bin/commlens" predict 19M --ranks 4 | head -n 1
for file in bin/commlens share/man/man1/commlens-predict.1 share/bash-completion/completions/commlens \
  share/zsh/vendor-completions/_commlens share/doc/commlens/LICENSE lib/libcommlens.so.0.2; do
  [ -e "$work/root/usr/$file" ] || fail "$file is missing"
done
[ ! -e "$work/root/usr/include" ] || fail "headers are in the packages of the program or the library"
