# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` puts in place: libzipccl.so, the codecs as static libraries, their headers, the CMake
# package (targets zipccl::zipccl, zipccl::codec and, from a build with CUDA, zipccl::gpu) and zipccl.pc.

include(CMakePackageConfigHelpers)

set(packageDir "${CMAKE_INSTALL_LIBDIR}/cmake/zipccl")

install(TARGETS zipccl zipccl_codec zipccl_base EXPORT zipcclTargets)
install(EXPORT zipcclTargets NAMESPACE zipccl:: DESTINATION "${packageDir}")
if(ZIPCCL_HAS_CUDA)
  # Apart, so that a user who has no CUDA toolkit can still use the rest.
  install(TARGETS zipccl_gpu EXPORT zipcclGpuTargets)
  install(EXPORT zipcclGpuTargets NAMESPACE zipccl:: DESTINATION "${packageDir}")
endif()

get_property(publicHeaders GLOBAL PROPERTY ZIPCCL_PUBLIC_HEADERS)
install(FILES ${publicHeaders} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/zipccl")

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/zipcclConfig.cmake.in" "${PROJECT_BINARY_DIR}/zipcclConfig.cmake"
  INSTALL_DESTINATION "${packageDir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/zipcclConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/zipcclConfig.cmake" "${PROJECT_BINARY_DIR}/zipcclConfigVersion.cmake"
        DESTINATION "${packageDir}")

# From the folder of zipccl.pc to the prefix, so that an installed tree may be moved as a whole.
set(pkgconfigDir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(ABSOLUTE_PATH pkgconfigDir BASE_DIRECTORY /prefix OUTPUT_VARIABLE pkgconfigPath)
cmake_path(RELATIVE_PATH pkgconfigPath BASE_DIRECTORY /prefix OUTPUT_VARIABLE pkgconfigBelowPrefix)
string(REGEX REPLACE "[^/]+" ".." pkgconfigToPrefix "${pkgconfigBelowPrefix}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/zipccl.pc.in" "${PROJECT_BINARY_DIR}/zipccl.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/zipccl.pc" DESTINATION "${pkgconfigDir}")
