#!/usr/bin/env bash
# Each rule of check_sources.sh passes a good tree and names the file and line of a breach.
set -euo pipefail
check=$(cd "$(dirname "$0")" && pwd)/check_sources.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

fresh_tree() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/commlens/{base,comm,config,frameworks/neox,summary,formats/{io,kineto,goal}} "$tree"/{tests,benchmarks}
  printf '#pragma once\n/// A size.\nstruct Size {};\n' >"$tree/commlens/base/size.hpp"
  printf '#include "commlens/base/size.hpp"\n\n#include <zero>\n' >"$tree/commlens/base/size.cpp"
  printf '#include "commlens/base/size.hpp"\n#include "commlens/comm/wire.hpp"\n' >"$tree/commlens/comm/op.cpp"
  printf 'int neox;\n' | tee "$tree/commlens/frameworks/frameworks.cpp" >"$tree/commlens/frameworks/neox/a.cpp"
  printf '#include <yaml-cpp/yaml.h>\n#include <nlohmann/json.hpp>\n' >"$tree/commlens/config/yaml.cpp"
}

# breach RULE FILE TEXT EXPECTED: with TEXT in FILE, RULE fails and says EXPECTED.
breach() {
  fresh_tree
  bash "$check" "$1" "$tree" || { echo "$1 refuses a good tree"; failed=1; }
  printf "$3" >"$tree/$2"
  local said
  if said=$(bash "$check" "$1" "$tree"); then
    echo "$1 misses: $4"
    failed=1
  elif [[ $said != *"$4"* ]]; then
    printf '%s says\n%s\ninstead of\n%s\n' "$1" "$said" "$4"
    failed=1
  fi
}

breach includes commlens/comm/op.cpp '\n#include "commlens/summary/x.hpp"\n' 'op.cpp:2: comm may not include summary'
breach includes commlens/comm/op.cpp '#include "op.hpp"\n' 'op.cpp:1: write the full path'
breach libraries commlens/comm/op.cpp '#include <yaml-cpp/yaml.h>\n' 'op.cpp:1: <yaml-cpp/yaml.h> may not'
breach libraries commlens/summary/a.cpp '#include <nlohmann/json_fwd.hpp>\n' 'a.cpp:1: <nlohmann/json_fwd.hpp>'
breach libraries commlens/base/a.cpp '  #  include <mpi.h>\n' 'a.cpp:1: <mpi.h> may not'
breach libraries commlens/formats/goal/a.cpp '#include <sqlite3.h>\n' 'a.cpp:1: <sqlite3.h> may not'
breach libraries commlens/formats/goal/a.cpp '#include <zlib.h>\n' 'a.cpp:1: <zlib.h> may not'
breach libraries commlens/formats/io/a.cpp '#include <otf2/otf2.h>\n' 'a.cpp:1: <otf2/otf2.h> may not'
breach libraries commlens/formats/kineto/a.cpp '#include <chakra.pb.h>\n' 'a.cpp:1: <chakra.pb.h> may not'
breach formats commlens/formats/goal/a.cpp '#include "commlens/formats/kineto/x.hpp"\n' 'a.cpp:1: format goal may not include formats/kineto'
breach formats commlens/formats/io/a.cpp '#include "commlens/formats/formats.hpp"\n' 'a.cpp:1: format io may not'
breach own_header commlens/base/size.cpp '#include <vector>\n#include "commlens/base/size.hpp"\n' 'size.cpp:1: include'
breach own_header commlens/base/size.cpp 'int size;\n' 'size.cpp:: include'
breach frameworks commlens/summary/a.cpp 'bool b = name == "deepspeed";\n' 'a.cpp:1: a framework is named outside'
breach frameworks commlens/frameworks/a.cpp '#include "commlens/frameworks/neox/options.hpp"\n' 'a.cpp:1: a framework is named outside'
breach silent commlens/summary/a.cpp 'void f() { std::cout << 1; }\n' 'a.cpp:1: only commlens/cli talks'
breach silent commlens/config/a.cpp '#include <iostream>\n' 'a.cpp:1: only commlens/cli talks'
breach size commlens/base/long.cpp "$(printf '%.0s\\n' {1..501})" 'long.cpp: more than 500 lines'
breach one_name commlens/comm/size.hpp '/// Another.\nstruct Size {};\n' 'size.hpp:2: ::Size is a class of commlens/base/size.hpp, too'
breach documented commlens/base/size.hpp '#pragma once\nstruct Size {};\n' 'size.hpp: no doc comment'
exit $failed
