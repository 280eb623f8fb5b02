# Libraries that `commlens record` loads into other people's programs (LD_PRELOAD). They bring everything along (the
# C++ library, fmt) and show nothing but the functions that they stand in for: a program may use another fmt, an
# older C++ library, or none.

# What a recorder needs of the lower floors, and no reader.
set(capture_floors base/check base/dtype base/file base/sums base/text base/unfinished base/units comm/axis comm/event comm/group comm/mesh comm/rank_range
    trace/clock trace/comm_members trace/compute_file
    trace/compute_recorder trace/create_recording trace/growing_file trace/json_text trace/manifest_writer trace/mapped_file trace/op_cache
    trace/op_lanes trace/recorder_file trace/ring_memory
    trace/rank_process trace/rank_tables_file trace/recorder trace/stream_layout trace/table_text trace/trace trace/trace_directory)
list(TRANSFORM capture_floors PREPEND ${PROJECT_SOURCE_DIR}/commlens/)
list(TRANSFORM capture_floors APPEND .cpp)
add_library(commlens_capture_floors OBJECT ${capture_floors})
target_link_libraries(commlens_capture_floors PRIVATE commlens_options tl::expected fmt::fmt-header-only)
set_target_properties(commlens_capture_floors PROPERTIES CXX_VISIBILITY_PRESET hidden
                                                         VISIBILITY_INLINES_HIDDEN ON)

file(GLOB capture_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/commlens/capture/*.cpp)
list(FILTER capture_sources EXCLUDE REGEX "/nccl_")  # libraries of their own
set(capture_tests ${capture_sources})
list(FILTER capture_tests INCLUDE REGEX "_test\\.cpp$")
list(FILTER capture_sources EXCLUDE REGEX "(_test\\.cpp|/nccl_[^/]*)$")

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
  set(lines "#pragma once\n// NOLINTBEGIN: the names are MPI's\n")
  foreach(function ${names})
    string(SUBSTRING ${function} 1 -1 public)
    string(APPEND lines "#define COMMLENS_HAS_${public} ~, 1\n")
  endforeach()
  string(APPEND lines "// NOLINTEND\n")
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

# Sanitizers must be the first library of a process, which these are not. With the thread sanitizer a program of several
# threads has the capture library within itself.
if(COMMLENS_SANITIZE)
  message(STATUS "sanitizers: the capture libraries are left out")
  if(COMMLENS_SANITIZE STREQUAL "thread" AND COMMLENS_MPI_openmpi)
    enable_language(C)
    set(generated ${CMAKE_BINARY_DIR}/capture-openmpi)
    commlens_mpi_functions(openmpi ${generated})
    add_executable(capture_threads_tsan EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/capture/modes.c ${capture_sources}
                   $<TARGET_OBJECTS:commlens_capture_floors>)
    target_include_directories(capture_threads_tsan SYSTEM PRIVATE ${COMMLENS_MPI_openmpi_INCLUDES})
    target_include_directories(capture_threads_tsan PRIVATE ${generated})
    target_compile_definitions(capture_threads_tsan PRIVATE OMPI_SKIP_MPICXX=1 COMMLENS_VERSION="${PROJECT_VERSION}")
    target_link_libraries(capture_threads_tsan PRIVATE commlens_options tl::expected fmt::fmt-header-only Threads::Threads
                                                       ${COMMLENS_MPI_openmpi_LIBRARY} ${CMAKE_DL_LIBS})
    set_target_properties(capture_threads_tsan PROPERTIES C_STANDARD 11)
  endif()
  return()
endif()

commlens_mpi_capture(openmpi)
commlens_mpi_capture(mpich)
if(capture_tests)
  commlens_test(commlens_capture_test SOURCES ${capture_tests} ${PROJECT_SOURCE_DIR}/commlens/capture/request_table.cpp
                LABEL unit LINK commlens_trace)
endif()

# Libraries that watch NCCL and RCCL, which need neither to be built: libcommlens-nccl-profiler.so, a plug-in that NCCL
# loads, and libcommlens-nccl.so, which stands before either library (LD_PRELOAD). Both stay until the process ends,
# whoever unloads them.
set(nccl_common calls comm job marks process stream symbols)
function(commlens_nccl_capture target map)
  list(TRANSFORM nccl_common PREPEND ${PROJECT_SOURCE_DIR}/commlens/capture/nccl_ OUTPUT_VARIABLE common)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/commlens/capture/nccl_ OUTPUT_VARIABLE sources)
  set(sources ${common} ${sources} ${PROJECT_SOURCE_DIR}/commlens/capture/call_sites ${PROJECT_SOURCE_DIR}/commlens/capture/environment)
  list(TRANSFORM sources APPEND .cpp)
  set(exported ${PROJECT_SOURCE_DIR}/commlens/capture/${map})
  add_library(${target} MODULE ${sources} $<TARGET_OBJECTS:commlens_capture_floors>)
  target_compile_definitions(${target} PRIVATE COMMLENS_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${target} PRIVATE commlens_options tl::expected fmt::fmt-header-only Threads::Threads
                                          ${CMAKE_DL_LIBS})
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,-z,defs -Wl,-z,nodelete
                                        -Wl,--version-script=${exported})
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS ${exported})
endfunction()
commlens_nccl_capture(commlens-nccl-profiler nccl_profiler.map events profiler)
commlens_nccl_capture(commlens-nccl nccl_shim.map gpu poller shim shim_calls shim_comms shim_pending)
