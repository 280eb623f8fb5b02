# commlens_embed(LIBRARY FUNCTION HEADER FILES...): a library LIBRARY with `FUNCTION()` of HEADER, a
# std::span<const EmbeddedFile> (commlens/base/embedded_file.hpp) over the texts of FILES, sorted by name. A file's name has the
# folder that it is in.
function(commlens_embed library function header)
  set(source ${CMAKE_BINARY_DIR}/generated/${library}.cpp)
  set(files ${ARGN})
  list(SORT files)
  list(JOIN files "|" joined)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -D OUTPUT=${source} -D FUNCTION=${function} -D HEADER=${header} "-DFILES=${joined}"
            -P ${PROJECT_SOURCE_DIR}/cmake/file_literals.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/file_literals.cmake
    COMMENT "Embedding the files of ${function}" VERBATIM)
  add_library(${library} STATIC ${source})
  target_link_libraries(${library} PRIVATE commlens_options)
  # Some compilers warn of literals above 64 KiB, though all take them.
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings)
  set_target_properties(${library} PROPERTIES CXX_CLANG_TIDY "" UNITY_BUILD OFF)
endfunction()
