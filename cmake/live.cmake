# libcommlens-live.so, which serves HTTP, where libmicrohttpd is installed.
find_path(MICROHTTPD_INCLUDE microhttpd.h)
find_library(MICROHTTPD_LIBRARY NAMES microhttpd)
if(NOT MICROHTTPD_INCLUDE OR NOT MICROHTTPD_LIBRARY)
  message(STATUS "libmicrohttpd not found: libcommlens-live.so is left out, serve is refused")
  return()
endif()
commlens_module(live SOURCE live/http/module.cpp LINK commlens_live ${MICROHTTPD_LIBRARY})
target_include_directories(commlens-live SYSTEM PRIVATE ${MICROHTTPD_INCLUDE})
if(TARGET commlens_live_test)  # through the module
  add_dependencies(commlens_live_test commlens-live)
endif()
