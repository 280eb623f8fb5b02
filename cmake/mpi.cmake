# comm_mpi*.cpp once per MPI that is installed, each a module of its own. Where several are (Debian's alternatives), each
# has a compiler wrapper under its own name; elsewhere `mpicc` belongs to the one there is.

# The values of the words of `line` that start with `flag`.
function(commlens_values_of flag line result)
  separate_arguments(words UNIX_COMMAND "${line}")
  list(FILTER words INCLUDE REGEX "^${flag}")
  list(TRANSFORM words REPLACE "^${flag}" "")
  set(${result} ${words} PARENT_SCOPE)
endfunction()

# commlens_find_mpi(NAME MARK): when the headers and the library of that MPI are found, sets COMMLENS_MPI_NAME,
# and _INCLUDES, _LIBRARY, _LAUNCHER beside it. MARK is a macro of its mpi.h.
function(commlens_find_mpi name mark)
  set(found COMMLENS_MPI_${name})
  find_program(${found}_LAUNCHER NAMES mpirun.${name} mpirun)
  foreach(wrapper mpicc.${name} mpicc)
    unset(program)
    unset(header)
    unset(library)
    find_program(program ${wrapper} NO_CACHE)
    if(NOT program)
      continue()
    endif()
    execute_process(COMMAND ${program} -show OUTPUT_VARIABLE line ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    commlens_values_of(-I "${line}" includes)
    commlens_values_of(-L "${line}" folders)
    commlens_values_of(-l "${line}" names)
    list(FILTER names INCLUDE REGEX "^mpi")
    find_file(header mpi.h HINTS ${includes} NO_CACHE)
    find_library(library NAMES ${names} HINTS ${folders} NO_CACHE)
    if(NOT header OR NOT library)
      continue()
    endif()
    file(STRINGS ${header} marks REGEX "#[ ]*define[ ]+${mark}" LIMIT_COUNT 1)
    if(marks)
      set(${found} TRUE PARENT_SCOPE)
      set(${found}_INCLUDES ${includes} PARENT_SCOPE)
      set(${found}_LIBRARY ${library} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# The MPI that commlens_find_mpi has found, as libcommlens-mpi-NAME.so.
function(commlens_mpi_module name)
  if(NOT COMMLENS_MPI_${name})
    message(STATUS "no headers of ${name} found: libcommlens-mpi-${name}.so is left out")
    return()
  endif()
  add_library(commlens_mpi_${name} INTERFACE)
  target_include_directories(commlens_mpi_${name} SYSTEM INTERFACE ${COMMLENS_MPI_${name}_INCLUDES})
  # Not the C++ bindings that MPI 3 removed.
  target_compile_definitions(commlens_mpi_${name} INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
  target_link_libraries(commlens_mpi_${name} INTERFACE ${COMMLENS_MPI_${name}_LIBRARY})
  commlens_module(mpi-${name} SOURCE transport/comm_mpi.cpp
                  LINK commlens_transport commlens_mpi_${name} ${CMAKE_DL_LIBS})
  target_sources(commlens-mpi-${name} PRIVATE ${PROJECT_SOURCE_DIR}/commlens/transport/comm_mpi_algorithms.cpp
                                              ${PROJECT_SOURCE_DIR}/commlens/transport/comm_mpi_calls.cpp
                                              ${PROJECT_SOURCE_DIR}/commlens/transport/comm_mpi_operations.cpp
                                              ${PROJECT_SOURCE_DIR}/commlens/transport/comm_mpi_work.cpp
                                              ${PROJECT_SOURCE_DIR}/commlens/transport/comm_mpi_queue.cpp)
endfunction()

commlens_find_mpi(openmpi OPEN_MPI)
commlens_find_mpi(mpich MPICH_VERSION)
commlens_mpi_module(openmpi)
commlens_mpi_module(mpich)
