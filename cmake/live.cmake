# libcommlens-live.so, which serves HTTP, where libmicrohttpd is installed, and posts alerts and asks agents, where libcurl is.
find_path(MICROHTTPD_INCLUDE microhttpd.h)
find_library(MICROHTTPD_LIBRARY NAMES microhttpd)
if(NOT MICROHTTPD_INCLUDE OR NOT MICROHTTPD_LIBRARY)
  message(STATUS "libmicrohttpd not found: libcommlens-live.so is left out, serve is refused")
  return()
endif()
commlens_module(live SOURCE live/http/module.cpp LINK commlens_live ${MICROHTTPD_LIBRARY})
target_include_directories(commlens-live SYSTEM PRIVATE ${MICROHTTPD_INCLUDE})
find_package(CURL 7.87 QUIET)
if(CURL_FOUND)
  target_sources(commlens-live PRIVATE ${PROJECT_SOURCE_DIR}/commlens/live/http/post_module.cpp
                                       ${PROJECT_SOURCE_DIR}/commlens/live/http/get_module.cpp)
  target_compile_definitions(commlens-live PRIVATE CURL_STRICTER)  # types of its own for what is void otherwise
  target_link_libraries(commlens-live PRIVATE CURL::libcurl)
else()
  message(STATUS "libcurl not found: --webhook and agents by URL are refused")
endif()
if(TARGET commlens_live_test)  # through the module
  add_dependencies(commlens_live_test commlens-live)
endif()
