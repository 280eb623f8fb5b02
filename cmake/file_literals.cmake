# cmake -P file_literals.cmake with OUTPUT, FUNCTION, HEADER and FILES (cmake/embedded_files.cmake).
cmake_minimum_required(VERSION 3.25)
string(REPLACE "|" ";" FILES "${FILES}")
set(literals "")
set(rows "")
set(count 0)
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  file(READ ${file} bytes HEX)
  string(REPEAT "[0-9a-f]" 60 line)
  string(REGEX REPLACE "(${line})" "\\1\"\n\"" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  string(APPEND literals "constexpr char k_file_${count}[] =\n\"${bytes}\";\n")
  string(APPEND rows "    {\"${folder}/${name}\", {k_file_${count}, sizeof(k_file_${count}) - 1}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include <array>

#include \"${HEADER}\"

namespace commlens {
namespace {

${literals}
constexpr std::array<EmbeddedFile, ${count}> k_files = {{
${rows}}};

}  // namespace

std::span<const EmbeddedFile> ${FUNCTION}() { return k_files; }

}  // namespace commlens
")
