# Libraries that `commlens record` loads into other people's programs (LD_PRELOAD). They bring everything along (the
# C++ library, fmt) and show nothing but the functions that they stand in for: a program may use another fmt, an
# older C++ library, or none.

# Sanitizers must be the first library of a process, which these are not.
if(COMMLENS_SANITIZE)
  message(STATUS "sanitizers: the capture libraries are left out")
  return()
endif()

# What a recorder needs of the lower floors, and no reader.
set(capture_floors base/check base/dtype base/file base/units comm/event comm/group trace/clock trace/compute_file
    trace/compute_recorder trace/create_recording trace/growing_file trace/json_text trace/manifest_writer trace/mapped_file trace/op_cache
    trace/rank_tables_file trace/recorder trace/table_text trace/trace trace/trace_folder)
list(TRANSFORM capture_floors PREPEND ${PROJECT_SOURCE_DIR}/commlens/)
list(TRANSFORM capture_floors APPEND .cpp)
add_library(commlens_capture_floors OBJECT ${capture_floors})
target_link_libraries(commlens_capture_floors PRIVATE commlens_options tl::expected fmt::fmt-header-only)
set_target_properties(commlens_capture_floors PROPERTIES CXX_VISIBILITY_PRESET hidden
                                                         VISIBILITY_INLINES_HIDDEN ON)

file(GLOB capture_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/commlens/capture/*.cpp)
set(capture_tests ${capture_sources})
list(FILTER capture_tests INCLUDE REGEX "_test\\.cpp$")
list(FILTER capture_sources EXCLUDE REGEX "_test\\.cpp$")

# mpi_has.hpp: COMMLENS_HAS_MPI_NAME for each function that the MPI's headers declare.
function(commlens_mpi_functions name folder)
  set(includes ${COMMLENS_MPI_${name}_INCLUDES})
  list(TRANSFORM includes PREPEND -I)
  file(WRITE ${folder}/functions.cpp "#include <mpi.h>\n#if __has_include(<mpi-ext.h>)\n#include <mpi-ext.h>\n#endif\n")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -E -P -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1 ${includes}
                          ${folder}/functions.cpp
                  OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "PMPIX?_[A-Za-z_]+" names "${text}")
  list(REMOVE_DUPLICATES names)
  set(lines "#pragma once\n")
  foreach(function ${names})
    string(SUBSTRING ${function} 1 -1 public)
    string(APPEND lines "#define COMMLENS_HAS_${public} ~, 1\n")
  endforeach()
  file(CONFIGURE OUTPUT ${folder}/commlens/capture/mpi_has.hpp CONTENT "${lines}")
endfunction()

# libcommlens-capture-mpi-NAME.so, not linked with that MPI: see mpi_api.hpp.
function(commlens_mpi_capture name)
  if(NOT COMMLENS_MPI_${name})
    message(STATUS "no headers of ${name} found: libcommlens-capture-mpi-${name}.so is left out")
    return()
  endif()
  set(generated ${CMAKE_BINARY_DIR}/capture-${name})
  commlens_mpi_functions(${name} ${generated})
  set(target commlens-capture-mpi-${name})
  add_library(${target} MODULE ${capture_sources} $<TARGET_OBJECTS:commlens_capture_floors>)
  target_include_directories(${target} SYSTEM PRIVATE ${COMMLENS_MPI_${name}_INCLUDES})
  target_include_directories(${target} PRIVATE ${generated})
  target_compile_definitions(${target} PRIVATE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1
                                               COMMLENS_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${target} PRIVATE commlens_options tl::expected fmt::fmt-header-only Threads::Threads
                                          ${CMAKE_DL_LIBS})
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,-z,defs
                      -Wl,--version-script=${PROJECT_SOURCE_DIR}/commlens/capture/exported.map)
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON
                        LINK_DEPENDS ${PROJECT_SOURCE_DIR}/commlens/capture/exported.map)
endfunction()

commlens_mpi_capture(openmpi)
commlens_mpi_capture(mpich)
if(capture_tests)
  commlens_test(commlens_capture_test SOURCES ${capture_tests} ${PROJECT_SOURCE_DIR}/commlens/capture/request_table.cpp
                LABEL unit LINK commlens_trace)
endif()
