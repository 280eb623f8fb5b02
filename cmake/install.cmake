# The library libcommlens.so (CMake package `commlens`, target commlens::commlens), and what `cmake --install` puts where:
#   bin/commlens                the program
#   lib/commlens/               modules that verbs load, libraries that `record` loads into other programs
#   LIBDIR/libcommlens.so.X.Y   the library; include/commlens/ its headers; LIBDIR/cmake/commlens/ its package
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Every folder that the library is made of. Its code is compiled once, for the tests, the program and the library.
set(library_folders base comm config model machine network simulate search trace formats plan frameworks summary live compare advice report transport bench tune app)
add_library(commlens_library SHARED $<TARGET_OBJECTS:commlens_web> $<TARGET_OBJECTS:commlens_machines>
                                    $<TARGET_OBJECTS:commlens_training>
                                    $<TARGET_OBJECTS:commlens_layouts> $<TARGET_OBJECTS:commlens_recordings>
                                    $<TARGET_OBJECTS:commlens_chakra>)
foreach(folder ${library_folders})
  get_target_property(kind commlens_${folder} TYPE)
  if(kind STREQUAL "STATIC_LIBRARY")
    target_sources(commlens_library PRIVATE $<TARGET_OBJECTS:commlens_${folder}>)
  endif()
  get_property(libraries GLOBAL PROPERTY commlens_libraries_of_${folder})
  list(FILTER libraries EXCLUDE REGEX "^commlens_")
  target_link_libraries(commlens_library PRIVATE ${libraries})
endforeach()
target_link_libraries(commlens_library PRIVATE fmt::fmt protobuf::libprotobuf-lite Threads::Threads
                                       INTERFACE tl::expected nlohmann_json::nlohmann_json)
target_include_directories(commlens_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(commlens_library INTERFACE cxx_std_20)
# Nothing but the functions of commlens is shown, and the library calls its own.
set(exported ${PROJECT_SOURCE_DIR}/cmake/library.map)
target_link_options(commlens_library PRIVATE -Wl,--version-script=${exported} -Wl,-Bsymbolic-functions -Wl,-z,defs)
# Before 1.0 every minor version may change the interface.
set_target_properties(commlens_library PROPERTIES
  OUTPUT_NAME commlens EXPORT_NAME commlens LINK_DEPENDS ${exported} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
add_library(commlens::commlens ALIAS commlens_library)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/commlens)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/commlensConfig.cmake.in ${CMAKE_BINARY_DIR}/commlensConfig.cmake
                              INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/commlensConfigVersion.cmake COMPATIBILITY SameMinorVersion)

# Completion and manual pages are made of the options by the program itself.
set(help_files ${CMAKE_BINARY_DIR}/share)
add_custom_command(OUTPUT ${help_files}/made COMMAND ${CMAKE_COMMAND} -E rm -rf ${help_files}
                   COMMAND commlens help-files ${help_files} COMMAND ${CMAKE_COMMAND} -E touch ${help_files}/made
                   DEPENDS commlens COMMENT "Writing completion and manual pages" VERBATIM)
add_custom_target(commlens_help_files ALL DEPENDS ${help_files}/made)

install(TARGETS commlens RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(DIRECTORY ${help_files}/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT program PATTERN made EXCLUDE)
install(TARGETS commlens_library EXPORT commlens
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(EXPORT commlens NAMESPACE commlens:: FILE commlensTargets.cmake DESTINATION ${package_folder}
        COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/commlensConfig.cmake ${CMAKE_BINARY_DIR}/commlensConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT development)
# The headers of the verbs, and what these include. Found out when they are installed: they change with every edit.
install(CODE "set(SOURCE \"${PROJECT_SOURCE_DIR}\")\nset(TO \"${CMAKE_INSTALL_INCLUDEDIR}\")" COMPONENT development)
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/public_headers.cmake COMPONENT development)

# commlens_install_module(COMPONENT NAME...): modules to where program and library look for them (base/modules.hpp).
function(commlens_install_module component)
  foreach(name ${ARGN})
    if(TARGET commlens-${name})
      set_target_properties(commlens-${name} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
      install(TARGETS commlens-${name} LIBRARY DESTINATION lib/commlens COMPONENT ${component})
    endif()
  endforeach()
endfunction()
commlens_install_module(program capture-mpi-openmpi capture-mpi-mpich nccl-profiler nccl charts)
commlens_install_module(train engine)
commlens_install_module(openmpi mpi-openmpi)
commlens_install_module(mpich mpi-mpich)
commlens_install_module(otf2 otf2)
commlens_install_module(live live)
if(TARGET commlens-live)  # what other programs take of it
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/dashboards ${PROJECT_SOURCE_DIR}/contrib DESTINATION ${CMAKE_INSTALL_DATADIR}/commlens
          COMPONENT live USE_SOURCE_PERMISSIONS)
endif()
commlens_install_module(simgrid simgrid)
if(EXISTS /etc/debian_version)  # whose zsh looks here below /usr
  install(FILES ${help_files}/zsh/site-functions/_commlens DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
          COMPONENT program)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
include(cmake/package.cmake)
