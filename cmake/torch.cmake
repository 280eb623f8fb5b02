# TORCH_LIBRARIES: LibTorch 1.13 or later, wherever CMAKE_PREFIX_PATH leads. A LibTorch for CUDA, such as the one in
# PyTorch's wheels, insists on a CUDA toolkit, which its libraries for CPUs do not need: where there is none, those alone
# are linked.
find_path(COMMLENS_TORCH_CMAKE TorchConfig.cmake
          PATH_SUFFIXES Torch share/cmake/Torch lib/cmake/Torch lib/${CMAKE_LIBRARY_ARCHITECTURE}/cmake/Torch)
get_filename_component(torch_prefix "${COMMLENS_TORCH_CMAKE}/../../.." ABSOLUTE)
set(torch_is_for_cuda NO)
if(EXISTS "${torch_prefix}/lib/libtorch_cuda.so")
  set(torch_is_for_cuda YES)
  find_package(CUDAToolkit QUIET)
endif()

if(torch_is_for_cuda AND NOT CUDAToolkit_FOUND)
  message(STATUS "no CUDA toolkit found: LibTorch of ${torch_prefix} is linked for CPUs only")
  add_library(commlens_torch_cpu INTERFACE)
  target_include_directories(commlens_torch_cpu SYSTEM INTERFACE ${torch_prefix}/include
                                                                 ${torch_prefix}/include/torch/csrc/api/include)
  target_link_libraries(commlens_torch_cpu INTERFACE ${torch_prefix}/lib/libtorch_cpu.so ${torch_prefix}/lib/libc10.so)
  set(TORCH_LIBRARIES commlens_torch_cpu)
else()
  find_package(Torch REQUIRED)
endif()

# commlens_before_torch(TARGET): LibTorch 2 has the headers of another fmt among its own; TARGET finds ours first.
function(commlens_before_torch target)
  get_target_property(fmt_headers fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  if(EXISTS "${torch_prefix}/include/fmt" AND NOT "${torch_prefix}/include" IN_LIST fmt_headers)
    list(GET fmt_headers 0 fmt_headers)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/before-torch)
    file(CREATE_LINK ${fmt_headers}/fmt ${CMAKE_BINARY_DIR}/before-torch/fmt SYMBOLIC)
    target_include_directories(${target} SYSTEM BEFORE PUBLIC ${CMAKE_BINARY_DIR}/before-torch)
  endif()
endfunction()
