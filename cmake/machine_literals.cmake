# cmake -P machine_literals.cmake with OUTPUT (the C++ source to write) and FOLDER (data/machines).
cmake_minimum_required(VERSION 3.25)
file(GLOB FILES ${FOLDER}/*.json)
list(SORT FILES)
set(literals "")
set(rows "")
set(count 0)
foreach(file ${FILES})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} bytes HEX)
  string(REPEAT "[0-9a-f]" 60 line)
  string(REGEX REPLACE "(${line})" "\\1\"\n\"" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  string(APPEND literals "constexpr char k_machine_${count}[] =\n\"${bytes}\";\n")
  string(APPEND rows "    {\"${name}\", {k_machine_${count}, sizeof(k_machine_${count}) - 1}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include <array>

#include \"commlens/machine/machines.hpp\"

namespace commlens {
namespace {

${literals}
constexpr std::array<BuiltInMachine, ${count}> k_machines = {{
${rows}}};

}  // namespace

std::span<const BuiltInMachine> built_in_machines() { return k_machines; }

}  // namespace commlens
")
