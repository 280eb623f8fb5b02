# Compiler settings of every target, and the one way to declare a source folder.

add_library(commlens_options INTERFACE)
target_include_directories(commlens_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(commlens_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror=switch)
if(COMMLENS_SANITIZE)
  target_compile_options(commlens_options INTERFACE -fsanitize=${COMMLENS_SANITIZE} -fno-sanitize-recover=all
                                                   -fno-omit-frame-pointer)
  target_link_options(commlens_options INTERFACE -fsanitize=${COMMLENS_SANITIZE})
endif()
if(COMMLENS_FUZZ)
  target_compile_options(commlens_options INTERFACE -fsanitize=fuzzer-no-link,address,undefined
                                                   -fno-sanitize-recover=all)
  target_link_options(commlens_options INTERFACE -fsanitize=address,undefined)
endif()
if(COMMLENS_TIDY)
  find_program(CLANG_TIDY NAMES clang-tidy-19 REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY ${CLANG_TIDY} --quiet --warnings-as-errors=*)
endif()

# commlens_folder(NAME LINK public... PRIVATE private...): the library commlens_NAME from commlens/NAME/**.cpp
# and, from the *_test.cpp files beside the sources, the test program commlens_NAME_test.
function(commlens_folder name)
  cmake_parse_arguments(ARG "" "" "LINK;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/commlens/${name}/*.cpp)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cpp$")
  add_library(commlens_${name} STATIC ${sources})
  set_target_properties(commlens_${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(commlens_${name} PUBLIC commlens_options ${ARG_LINK} PRIVATE ${ARG_PRIVATE})
  if(tests AND NOT COMMLENS_CORE_ONLY AND NOT COMMLENS_FUZZ)
    add_executable(commlens_${name}_test ${tests})
    target_link_libraries(commlens_${name}_test PRIVATE commlens_${name} ${ARG_PRIVATE} GTest::gtest_main)
    include(GoogleTest)
    gtest_discover_tests(commlens_${name}_test DISCOVERY_MODE PRE_TEST
                         PROPERTIES ENVIRONMENT "COMMLENS_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
  endif()
endfunction()
