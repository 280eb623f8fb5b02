# The page of `commlens report`: web/ is bundled with npm and embedded in commlens_report, behind
# commlens/report/web_assets.hpp; the script of charts without a page is embedded in libcommlens-charts.so, behind
# commlens/report/charts_script.hpp. Without npm, or where `npm ci` fails, reports have their tables only.

option(COMMLENS_WEB "bundle the interactive page of the report; needs node and npm" ON)

if(COMMLENS_WEB)
  find_program(NODE node)
  find_program(NPM npm)
endif()
set(web_tools ON)  # of tests/web
if(COMMLENS_CORE_ONLY OR COMMLENS_SANITIZE)
  set(web_tools OFF)
endif()
set(web_work ${CMAKE_BINARY_DIR}/web)
set(web_source ${CMAKE_BINARY_DIR}/generated/web_assets.cpp)
set(charts_source ${CMAKE_BINARY_DIR}/generated/charts_script.cpp)
set(web_npm "")
if(COMMLENS_WEB AND NODE AND NPM)
  set(web_npm ${NPM})
  message(STATUS "report page: bundled with ${NPM}")
else()
  message(STATUS "report page: no node and npm, so reports will have tables only")
endif()
if(EXISTS ${web_work}/failed)
  file(REMOVE ${web_source})  # try again
endif()

file(GLOB_RECURSE web_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/src/*)
list(APPEND web_files ${PROJECT_SOURCE_DIR}/web/package.json ${PROJECT_SOURCE_DIR}/web/package-lock.json
            ${PROJECT_SOURCE_DIR}/web/.npmrc ${PROJECT_SOURCE_DIR}/web/bundle.mjs)
add_custom_command(
  OUTPUT ${web_source} ${charts_source}
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR}/web -D WORK=${web_work} -D OUTPUT=${web_source}
          -D CHARTS=${charts_source} -D TOOLS=${web_tools} -D NPM=${web_npm}
          -P ${CMAKE_CURRENT_LIST_DIR}/web_assets.cmake
  DEPENDS ${web_files} ${CMAKE_CURRENT_LIST_DIR}/web_assets.cmake
  COMMENT "Bundling the page of the report" VERBATIM)

add_library(commlens_web STATIC ${web_source})
target_link_libraries(commlens_web PRIVATE commlens_options)
# Some compilers warn of literals above 64 KiB, though all take them.
set_source_files_properties(${web_source} ${charts_source} PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings)
set_target_properties(commlens_web PROPERTIES CXX_CLANG_TIDY "" UNITY_BUILD OFF)
