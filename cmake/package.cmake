# `cpack --config build/release/CPackConfig.cmake`: Debian packages, split by what they need. What a package depends on,
# dpkg-shlibdeps finds out of its files.
#   commlens            program, completion, manual pages, recording of MPI and NCCL
#   commlens-train      `train`: needs LibTorch
#   commlens-openmpi    `train --transport mpi` over Open MPI; commlens-mpich: over MPICH
#   commlens-otf2       import and export of OTF2
#   commlens-live       `serve`: needs libmicrohttpd
#   libcommlens0.2      the library; libcommlens-dev: its headers and CMake package
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME commlens)
set(CPACK_PACKAGE_VENDOR "commlens")
set(CPACK_PACKAGE_CONTACT "commlens developers <commlens@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Of libraries among the packages themselves.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR})

set(library_package libcommlens${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(same_version "(= ${PROJECT_VERSION})")

# commlens_package(COMPONENT NAME "one line" "what else it depends on" TARGET...): where one of the targets is built.
function(commlens_package component name summary depends)
  set(built FALSE)
  foreach(target ${ARGN})
    if(TARGET ${target})
      set(built TRUE)
    endif()
  endforeach()
  if(NOT built)
    return()
  endif()
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} PARENT_SCOPE)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
endfunction()

set(CPACK_COMPONENTS_ALL "")
commlens_package(program commlens "communication of distributed training: predicted, recorded, compared" "" commlens)
commlens_package(train commlens-train "trainer of commlens, over LibTorch" "commlens ${same_version}" commlens-engine)
commlens_package(openmpi commlens-openmpi "commlens trains over Open MPI" "commlens-train ${same_version}" commlens-mpi-openmpi)
commlens_package(mpich commlens-mpich "commlens trains over MPICH" "commlens-train ${same_version}" commlens-mpi-mpich)
commlens_package(otf2 commlens-otf2 "OTF2 archives for commlens" "commlens ${same_version}" commlens-otf2)
commlens_package(live commlens-live "what a running job communicates, over HTTP" "commlens ${same_version}" commlens-live)
commlens_package(library ${library_package} "library of commlens" "" commlens_library)
commlens_package(development libcommlens-dev "headers of the library of commlens"
                 "${library_package} ${same_version}, libexpected-dev, nlohmann-json3-dev" commlens_library)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "commlens-train, commlens-openmpi, commlens-mpich, commlens-otf2, commlens-live")
set(CPACK_DEBIAN_TRAIN_PACKAGE_RECOMMENDS libopenblas0-pthread)  # LibTorch is ten times slower without
set(CPACK_DEBIAN_OPENMPI_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_DEBIAN_MPICH_PACKAGE_RECOMMENDS mpich)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS "commlens, commlens-train")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${CMAKE_BINARY_DIR}/triggers")
file(WRITE ${CMAKE_BINARY_DIR}/triggers "activate-noawait ldconfig\n")
include(CPack)
