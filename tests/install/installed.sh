#!/usr/bin/env bash
# installed.sh BUILD CMAKE CXX VERSION: installs a build into an empty place, moves it, and uses it from there: the program with its
# modules, and a project of its own that finds the library with find_package.
set -euo pipefail
build=$1 cmake=$2 compiler=$3 version=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset COMMLENS_MODULE_PATH LD_LIBRARY_PATH

fail() {
  echo "$*" >&2
  exit 1
}

"$cmake" --install "$build" --prefix "$work/first" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
mv "$work/first" "$work/prefix"  # nothing may remember where it was installed
prefix=$work/prefix
find "$prefix" -type f | sed "s|$prefix/||" | grep -v '^include/' | sort

# The program, and every module of the build where it is looked for.
for module in "$build"/libcommlens-*.so; do
  [ -e "$prefix/lib/commlens/${module##*/}" ] || fail "${module##*/} is not installed"
done
if [ -e "$build/libcommlens-live.so" ]; then
  for file in dashboards/commlens-rules.yml dashboards/grafana-commlens.json contrib/commlens-serve.service; do
    [ -e "$prefix/share/commlens/$file" ] || fail "$file is not installed"
  done
  [ -x "$prefix/share/commlens/contrib/slurm/epilog.sh" ] || fail "epilog.sh is not installed"
fi
[ "$("$prefix/bin/commlens" --version)" = "commlens $version" ] || fail "the installed program is not commlens $version"
"$prefix/bin/commlens" doctor --format csv >"$work/doctor.csv"
cat "$work/doctor.csv"
if grep '"\?[^"]*libcommlens-' "$work/doctor.csv" | grep -v "$prefix/lib/commlens/"; then
  fail "a module is not found in the prefix"
fi

# The project, with the flags that a careful user has.
"$cmake" -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wpedantic -Wno-missing-field-initializers -Werror" >"$work/configure.log" ||
  { cat "$work/configure.log"; exit 1; }
"$cmake" --build "$work/consumer" -j 2 >"$work/build.log" || { cat "$work/build.log"; exit 1; }
readelf -d "$work/consumer/example" | grep -qF "libcommlens.so.${version%.*}]" || fail "the project is not linked with libcommlens.so.${version%.*}"

# A second method for what it prints: the program.
"$work/consumer/example" >"$work/example.txt"
cat "$work/example.txt"
"$prefix/bin/commlens" predict 1.3B --framework deepspeed --ranks 16 --zero 3 --format csv >"$work/expected.csv"
grep '^phase,\|,' "$work/example.txt" | tail -n "$(wc -l <"$work/expected.csv")" | diff "$work/expected.csv" -
diff <(sed -n '/^```cpp$/,/^```$/p' "$here/../../docs/library.md" | sed '1d;$d') "$here/consumer/example.cpp" ||
  fail "docs/library.md does not show tests/install/consumer/example.cpp"

train=()
[ ! -e "$prefix/lib/commlens/libcommlens-engine.so" ] || train=(train)
mkdir "$work/every"
"$work/consumer/every_verb" "$work/every" "${train[@]}" >"$work/every.txt"
cat "$work/every.txt"
grep -qxF "commlens $version" "$work/every.txt" || fail "the library has another version than its package"

# Another minor version, or a newer one, is refused.
for other in 0.99 1.0 "$version.1"; do
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES CXX)\nfind_package(commlens %s REQUIRED)\n' $other \
    >"$work/CMakeLists.txt"
  if "$cmake" -S "$work" -B "$work/refused-$other" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null 2>&1; then
    fail "commlens $version passes for $other"
  fi
done
