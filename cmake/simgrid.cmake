# libcommlens-simgrid.so, which plays flows through SimGrid, where the library is installed.
find_path(SIMGRID_INCLUDE simgrid/s4u.hpp)
find_library(SIMGRID_LIBRARY NAMES simgrid)
if(NOT SIMGRID_INCLUDE OR NOT SIMGRID_LIBRARY)
  message(STATUS "SimGrid not found: libcommlens-simgrid.so is left out")
  return()
endif()
commlens_module(simgrid SOURCE network/simgrid_module.cpp LINK commlens_network ${SIMGRID_LIBRARY})
target_include_directories(commlens-simgrid SYSTEM PRIVATE ${SIMGRID_INCLUDE})
# Its tests, of the program's side and through the module.
if(TARGET commlens_network_test)
  add_dependencies(commlens_network_test commlens-simgrid)
  add_dependencies(commlens_simulate_test commlens-simgrid)
endif()
