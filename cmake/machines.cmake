# data/machines/*.json in the program, behind commlens/machine/machines.hpp: machines_source names the C++ source that
# holds them.
set(machines_source ${CMAKE_BINARY_DIR}/generated/machines_built_in.cpp)
file(GLOB machine_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/data/machines/*.json)
list(SORT machine_files)
add_custom_command(
  OUTPUT ${machines_source}
  COMMAND ${CMAKE_COMMAND} -D OUTPUT=${machines_source} -D FOLDER=${PROJECT_SOURCE_DIR}/data/machines
          -P ${CMAKE_CURRENT_LIST_DIR}/machine_literals.cmake
  DEPENDS ${machine_files} ${CMAKE_CURRENT_LIST_DIR}/machine_literals.cmake
  COMMENT "Embedding the machines" VERBATIM)
add_library(commlens_machines STATIC ${machines_source})
target_link_libraries(commlens_machines PRIVATE commlens_options tl::expected)
# Some compilers warn of literals above 64 KiB, though all take them.
set_source_files_properties(${machines_source} PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings)
set_target_properties(commlens_machines PROPERTIES CXX_CLANG_TIDY "" UNITY_BUILD OFF)
