# libcommlens-charts.so, which draws figures without a browser: the script of web/ in Duktape, where that is installed.
find_path(DUKTAPE_INCLUDE duktape.h)
find_library(DUKTAPE_LIBRARY NAMES duktape)
if(NOT DUKTAPE_INCLUDE OR NOT DUKTAPE_LIBRARY)
  message(STATUS "Duktape not found: libcommlens-charts.so is left out, reports write no SVG")
  return()
endif()
commlens_module(charts SOURCE report/svg_module.cpp LINK commlens_base ${DUKTAPE_LIBRARY})
target_sources(commlens-charts PRIVATE ${charts_source})
add_dependencies(commlens-charts commlens_web)  # which is bundled by the same command
target_include_directories(commlens-charts SYSTEM PRIVATE ${DUKTAPE_INCLUDE})
set_target_properties(commlens-charts PROPERTIES UNITY_BUILD OFF)
# Its tests, of the program's side and through the module.
if(TARGET commlens_report_test)
  add_dependencies(commlens_report_test commlens-charts)
  add_dependencies(commlens_cli_test commlens-charts)
endif()
