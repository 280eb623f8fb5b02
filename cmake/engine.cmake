# The training engine: the only code that includes LibTorch; a library for the tests and a module for the program.
include(cmake/torch.cmake)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
commlens_folder(engine SHARDS 2 LINK commlens_frameworks commlens_transport ${TORCH_LIBRARIES} MODULES engine_module.cpp
                PRIVATE PkgConfig::PCRE2 PkgConfig::XXHASH nlohmann_json::nlohmann_json)
commlens_before_torch(commlens_engine)
# <torch/torch.h> takes 9 s to compile; once is enough.
target_compile_options(commlens_engine PUBLIC $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
# GCC 12 sees uninitialised members in nlohmann-json's initializer lists that are not there.
set_source_files_properties(commlens/engine/checkpoint.cpp PROPERTIES
  COMPILE_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
set_source_files_properties(commlens/engine/adamw_kernel.cpp PROPERTIES COMPILE_OPTIONS -fno-math-errno)
target_precompile_headers(commlens_engine PRIVATE ${PROJECT_SOURCE_DIR}/commlens/engine/torch.hpp)
# With that header GCC instantiates LibTorch's templates again in every file: not where it is not needed.
file(GLOB without_torch CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/commlens/engine/data/*.cpp
     ${PROJECT_SOURCE_DIR}/commlens/engine/fault*.cpp ${PROJECT_SOURCE_DIR}/commlens/engine/adamw_kernel.cpp)
set_source_files_properties(${without_torch} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
# commlens_use_engine(TARGET): a program of the same compile flags, so that the precompiled header is of use.
function(commlens_use_engine target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM commlens_engine)
  get_property(tests GLOBAL PROPERTY commlens_tests_of_${target})
  if(COMMLENS_SANITIZE AND tests)  # LibTorch leaks a little at exit
    set_property(TEST ${tests} APPEND PROPERTY ENVIRONMENT ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=1)
  endif()
endfunction()
if(TARGET commlens_engine_test)
  commlens_use_engine(commlens_engine_test)
  # All tests of the engine are one for ctest; this one says whether those of fused attention ran.
  if(NOT COMMLENS_SANITIZE)
    add_test(NAME FusedAttention COMMAND commlens_engine_test --gtest_filter=FusedAttention.*)
    set_tests_properties(FusedAttention PROPERTIES LABELS unit SKIP_REGULAR_EXPRESSION "has no fused attention")
  endif()
endif()
# Under a sanitizer only tests of the engine itself run: LibTorch leaks, and takes a second to start.
if(NOT COMMLENS_SANITIZE)
  commlens_module(engine SOURCE engine/engine_module.cpp LINK commlens_engine)
endif()
