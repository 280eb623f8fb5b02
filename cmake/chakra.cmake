# commlens_chakra: the messages of Chakra traces, which protoc makes of commlens/formats/chakra/chakra.proto. It runs when CMake
# does, so that clang-tidy finds the header before anything is built; the code is Google's, so it is compiled without our
# warnings, alone and not looked at by clang-tidy.
find_package(Protobuf REQUIRED)
set(chakra_proto ${PROJECT_SOURCE_DIR}/commlens/formats/chakra/chakra.proto)
set(chakra_folder ${CMAKE_BINARY_DIR}/chakra)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${chakra_proto})
file(MAKE_DIRECTORY ${chakra_folder}/new)
execute_process(COMMAND ${Protobuf_PROTOC_EXECUTABLE} --cpp_out=${chakra_folder}/new
                        --proto_path=${PROJECT_SOURCE_DIR}/commlens/formats/chakra ${chakra_proto}
                COMMAND_ERROR_IS_FATAL ANY)
foreach(made chakra.pb.h chakra.pb.cc)  # untouched where nothing changed, or each CMake run would compile it again
  file(COPY_FILE ${chakra_folder}/new/${made} ${chakra_folder}/${made} ONLY_IF_DIFFERENT)
endforeach()

add_library(commlens_chakra STATIC ${chakra_folder}/chakra.pb.cc)
target_include_directories(commlens_chakra SYSTEM PUBLIC ${chakra_folder})
target_link_libraries(commlens_chakra PUBLIC protobuf::libprotobuf-lite)
set_target_properties(commlens_chakra PROPERTIES UNITY_BUILD OFF CXX_CLANG_TIDY "")
if(COMMLENS_SANITIZE)
  target_compile_options(commlens_chakra PRIVATE -fsanitize=${COMMLENS_SANITIZE} -fno-omit-frame-pointer)
endif()
if(COMMLENS_FUZZ)
  target_compile_options(commlens_chakra PRIVATE -fsanitize=fuzzer-no-link)
endif()
