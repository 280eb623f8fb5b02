#!/usr/bin/env bash
# check_sources.sh RULE REPOSITORY: one rule over all C++ sources; prints file:line of each breach, exits 1 if any.
#   includes    a directory includes only the directories of allowed_includes.txt
#   libraries   a library is included only where allowed_libraries.txt says
#   formats     a directory of commlens/formats includes itself and formats/io; formats/io includes itself
#   own_header  x.cpp includes x.hpp, if there is one, before anything else
#   frameworks  a framework is named in its directory of commlens/frameworks, in the list frameworks.cpp and, in comments,
#               wherever a source is cited
#   silent      no directory but cli prints, asks for a terminal, takes an argument vector or ends the process; a broken check
#               does, and an MPI job that cannot end otherwise
#   size        no file has more than 500 lines
#   documented  each header explains something with ///
#   one_name    a class has one header: two of one name in a namespace are mixed up by the linker, and nothing says so
set -euo pipefail
rule=$1
here=$(cd "$(dirname "$0")" && pwd)
cd "$2"

sources() { find commlens "$@" -name '*.[ch]pp' | sort; }

includes() {
  sources | xargs awk '
    FILENAME == table { split($0, sides, ":"); allowed[sides[1]] = " " sides[2] " "; next }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
      split(FILENAME, from, "/"); split($0, quoted, "\""); split(quoted[2], to, "/")
      if (to[1] != "commlens" || to[3] == "")
        print FILENAME ":" FNR ": write the full path: \"commlens/directory/file.hpp\""
      else if (!(from[2] in allowed))
        print FILENAME ":" FNR ": directory " from[2] " is missing in tests/floors/allowed_includes.txt"
      else if (to[2] != from[2] && !index(allowed[from[2]], " " to[2] " "))
        print FILENAME ":" FNR ": " from[2] " may not include " to[2]
    }' table="$here/allowed_includes.txt" "$here/allowed_includes.txt"
}

libraries() {
  sources | xargs awk '
    FILENAME == table { if (split($0, sides, ":") == 2 && !/^#/) directories[sides[1]] = sides[2]; next }
    /^[ \t]*#[ \t]*include[ \t]*</ {
      split($0, quoted, /[<>]/)
      for (library in directories) {
        if (index(quoted[2], library) != 1) continue
        permitted = 0
        count = split(directories[library], directory, " ")
        for (i = 1; i <= count; i++) permitted = permitted || index(FILENAME, directory[i]) == 1
        if (!permitted) print FILENAME ":" FNR ": <" quoted[2] "> may not be included in this directory"
      }
    }' table="$here/allowed_libraries.txt" "$here/allowed_libraries.txt"
}

formats() {
  sources | xargs awk '
    FILENAME !~ /^commlens\/formats\/.*\// || FILENAME ~ /_test\.cpp$/ { next }
    /^[ \t]*#[ \t]*include[ \t]*"commlens\/formats\// {
      split(FILENAME, from, "/"); split($0, quoted, "\""); split(quoted[2], to, "/")
      if (to[3] != "io" && to[3] != from[3])
        print FILENAME ":" FNR ": format " from[3] " may not include formats/" to[3]
    }'
}

own_header() {
  local source header first
  while read -r source; do
    header=${source%.cpp}.hpp
    [ -e "$header" ] || continue
    first=$(grep -n -m1 '^[[:space:]]*#[[:space:]]*include' "$source" || true)
    [[ $first == *"\"$header\""* ]] || echo "$source:${first%%:*}: include \"$header\" first"
  done < <(sources -not -name '*_test.cpp' -not -name '*.hpp')
}

# What may name one all the same: the format of its log, the name of that log's way of counting, flags and examples; and the study
# of a paper, which is about the frameworks that it ran.
frameworks() {
  sources -not -path 'commlens/frameworks/*/*' -not -path commlens/frameworks/frameworks.cpp \
    -not -path 'commlens/formats/*' -not -path 'commlens/app/reproduce/*' -not -name '*_test.cpp' -not -name 'test_*' |
    xargs awk '{
      line = tolower($0)
      sub(/\/\/.*/, "", line)
      if (line ~ /comms logger|deepspeed-logger|"deepspeed_logger"|--deepspeed-like|^  commlens [a-z]/) next
      if (line ~ /deepspeed|neox|megatron|torch.?ddp|hugging/ && FILENAME !~ /^commlens\/trace\/logger_view.cpp$/)
        print FILENAME ":" FNR ": a framework is named outside its directory of commlens/frameworks"
    }'
}

silent() {
  sources -not -path 'commlens/cli/*' -not -name '*_test.cpp' -not -name 'test_*' -not -path 'commlens/transport/comm_mpi.cpp' \
    -not -path commlens/base/check.cpp |
    xargs awk '{
      line = $0
      sub(/\/\/.*/, "", line)
      if (line ~ /<iostream>|std::(cout|cerr|clog)|isatty\(|[^a-z_]argv[^a-z_]|(^|[^a-z_])f?printf\(|std::_?[Ee]xit\(/)
        print FILENAME ":" FNR ": only commlens/cli talks to a terminal or ends the process"
    }'
}

size() {
  find commlens tests benchmarks \( -name '*.[ch]pp' -o -name '*.sh' -o -name CMakeLists.txt \) -print0 |
    xargs -0 awk 'FNR == 501 { print FILENAME ": more than 500 lines; which two ideas does it hold?" }'
}

documented() { sources -name '*.hpp' | xargs grep -L '^ *///' | sed 's/$/: no doc comment (\/\/\/)/' || true; }

one_name() {
  sources -name '*.hpp' -not -name 'test_*' | xargs awk '
    /^namespace [a-z_:]+ \{/ { space = $2 }
    /^(class|struct) [A-Z][A-Za-z0-9]*( final)?( :.*)? \{|^(class|struct) [A-Z][A-Za-z0-9]* \{\};/ {
      name = space "::" $2; sub(/\{.*/, "", name)
      if (name in first && first[name] != FILENAME) print FILENAME ":" FNR ": " name " is a class of " first[name] ", too"
      else first[name] = FILENAME
    }'
}

breaches=$("$rule")
if [ -n "$breaches" ]; then
  printf '%s\n' "$breaches"
  exit 1
fi
