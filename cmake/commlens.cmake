# Compiler settings of every target, and the one way to declare a source folder.

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without this a file that uses a precompiled header is never found in the cache.
  # The base folder makes paths relative, so that what the release build compiled need not be compiled again by core.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                  CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE})
endif()

include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=mold COMMLENS_LINK_WITH_MOLD)
if(COMMLENS_LINK_WITH_MOLD)
  add_link_options(-fuse-ld=mold)  # several times faster on fifty programs
endif()

add_library(commlens_options INTERFACE)
target_include_directories(commlens_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(commlens_options INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -Wpedantic -Wshadow -Wconversion -Werror=switch
  # GCC 12 sees overlaps in std::string's operator+ that are not there (GCC bug 105651), and takes the sources of a
  # unity build for headers.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-subobject-linkage>
  # clang takes libstdc++'s own use of std::get_temporary_buffer for ours.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
if(COMMLENS_SANITIZE)
  target_compile_options(commlens_options INTERFACE -fsanitize=${COMMLENS_SANITIZE} -fno-sanitize-recover=all
                                                   -fno-omit-frame-pointer)
  target_link_options(commlens_options INTERFACE -fsanitize=${COMMLENS_SANITIZE})
endif()
if(COMMLENS_FUZZ)
  target_compile_options(commlens_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(COMMLENS_TIDY)
  find_program(CLANG_TIDY NAMES clang-tidy-19 REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY ${CLANG_TIDY} --quiet --warnings-as-errors=*)
endif()

# Folders that read arguments, write JSON and are no faster for being optimised: they are optimised for building.
set(commlens_light_folders advice report app cli)

# After how many seconds ctest ends a test: ten times what the longest of its kind takes on two cores with nothing else to
# do, and no less than five minutes. A test that is slow because the machine is loaded has not failed.
set(commlens_limit 300)        # one test, a job of MPI ranks, a recorded program: they take up to 20 s
set(commlens_limit_long 1200)  # a process of many tests, a browser, tests that fill tables: up to two minutes

# commlens_test(NAME SOURCES file... LINK library... LABEL label): a GoogleTest program whose tests ctest runs one by
# one. Where starting a program is dear (with LibTorch, under sanitizers) they run in one process, or in as many as
# SHARDS says where they take minutes; under sanitizers those that the GoogleTest filter SANITIZED names. So do tests that
# share what is dear to make (TOGETHER). The global
# property commlens_tests_of_NAME lists what ctest calls these processes.
function(commlens_test name)
  cmake_parse_arguments(ARG "TOGETHER" "LABEL;SANITIZED;SHARDS" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE commlens_options ${ARG_LINK} GTest::gtest_main)
  if(NOT "commlens_engine" IN_LIST ARG_LINK)  # whose precompiled header is optimised
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)  # what is tested is compiled as ever
  endif()
  set(properties LABELS ${ARG_LABEL} ENVIRONMENT "COMMLENS_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
      # A second ENVIRONMENT entry would be cut at its semicolon.
      ENVIRONMENT_MODIFICATION "COMMLENS_BINARY=set:${CMAKE_BINARY_DIR}/commlens")
  if(COMMLENS_SANITIZE OR ARG_TOGETHER OR "commlens_engine" IN_LIST ARG_LINK)
    if(NOT COMMLENS_SANITIZE OR NOT ARG_SANITIZED)
      set(ARG_SANITIZED "*")
    endif()
    if(NOT ARG_SHARDS)
      set(ARG_SHARDS 1)
    endif()
    # The longest start first, or a core would wait for them at the end.
    set(cost 50)
    if(ARG_LABEL STREQUAL "whole")
      set(cost 100)
    endif()
    foreach(shard RANGE 1 ${ARG_SHARDS})
      set(test ${name})
      if(ARG_SHARDS GREATER 1)
        set(test ${name}.${shard}_of_${ARG_SHARDS})
      endif()
      math(EXPR index "${shard} - 1")
      add_test(NAME ${test} COMMAND ${name} --gtest_brief=1 --gtest_filter=${ARG_SANITIZED} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
      set_tests_properties(${test} PROPERTIES ${properties} TIMEOUT ${commlens_limit_long} COST ${cost})
      set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${index})
      if(COMMLENS_SANITIZE)  # the release build tries a hundred cases of each law
        set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT "RC_PARAMS=seed=20261127 max_success=5")
      endif()
      set_property(GLOBAL APPEND PROPERTY commlens_tests_of_${name} ${test})
    endforeach()
  else()
    set(limit ${commlens_limit})
    if(ARG_SHARDS)  # some of its tests are long
      set(limit ${commlens_limit_long})
    endif()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT ${commlens_limit} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                         PROPERTIES ${properties} TIMEOUT ${limit})
  endif()
endfunction()

# commlens_folder(NAME LINK public... PRIVATE private...): the library commlens_NAME from commlens/NAME/**.cpp
# and, from the *_test.cpp files beside the sources, the test program commlens_NAME_test. A folder without
# sources is an interface library. MODULES names sources that are built apart, by commlens_module; SANITIZED and SHARDS
# are for commlens_test.
function(commlens_folder name)
  cmake_parse_arguments(ARG "" "SANITIZED;SHARDS" "LINK;PRIVATE;MODULES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/commlens/${name}/*.cpp)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cpp$")
  foreach(module ${ARG_MODULES})
    list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/commlens/${name}/${module})
  endforeach()
  if(sources)
    add_library(commlens_${name} STATIC ${sources})
    target_link_libraries(commlens_${name} PUBLIC commlens_options ${ARG_LINK} PRIVATE ${ARG_PRIVATE})
    if(name IN_LIST commlens_light_folders)
      target_compile_options(commlens_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
  else()
    add_library(commlens_${name} INTERFACE)
    target_link_libraries(commlens_${name} INTERFACE commlens_options ${ARG_LINK})
  endif()
  set_property(GLOBAL PROPERTY commlens_libraries_of_${name} ${ARG_PRIVATE})  # cmake/install.cmake
  if(tests AND NOT COMMLENS_CORE_ONLY)
    commlens_test(commlens_${name}_test SOURCES ${tests} LABEL unit SANITIZED "${ARG_SANITIZED}" SHARDS "${ARG_SHARDS}"
                  LINK commlens_${name} ${ARG_PRIVATE})
  endif()
endfunction()

# commlens_module(NAME SOURCE file LINK library...): libcommlens-NAME.so beside the program, which a verb loads when
# it needs it.
function(commlens_module name)
  cmake_parse_arguments(ARG "" "SOURCE" "LINK" ${ARGN})
  add_library(commlens-${name} MODULE ${PROJECT_SOURCE_DIR}/commlens/${ARG_SOURCE})
  target_link_libraries(commlens-${name} PRIVATE commlens_options ${ARG_LINK})
  # Its copies of the lower floors stay its own where libcommlens.so shows the same functions.
  target_link_options(commlens-${name} PRIVATE -Wl,--exclude-libs,ALL)
  set_target_properties(commlens-${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
                        CXX_VISIBILITY_PRESET hidden)
endfunction()
