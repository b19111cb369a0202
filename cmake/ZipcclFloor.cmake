# SPDX-License-Identifier: Apache-2.0
#
# Floors: the libraries that the product is made of. A floor sees the headers of another only when it links
# its target, because each floor has include roots of its own in the build tree, which hold nothing but
# links to its headers (docs/decisions/0001-floors-by-include-roots.md):
#
#   <build>/floors/codec/codec             -> <source>/src/codec
#       what its sources and the floors above include as "codec/layout.hpp"
#   <build>/public/codec/zipccl/codec.hpp  -> <source>/include/zipccl/codec.hpp
#       what users of the product include as <zipccl/codec.hpp> too
#
# What stands above the floors, and sees of them what any user sees, links zipccl_<floor>_public.

# zipccl_add_floor(NAME <floor> [SHARED <target>] [SOURCES <file>...] [PUBLIC_HEADERS <file>...]
#                  [USES <floor>...] [LIBS <target>...] [PUBLIC_LIBS <target>...])
#
# Adds the static library zipccl_<floor> from the sources in src/<floor>, or with SHARED the shared library
# <target>, which shows its public headers and nothing of the floors below.
#
# PUBLIC_HEADERS: its files of include/zipccl/, by name, or the absolute path of a generated one.
# USES: the floors whose headers it may include, and by them whatever they use.
# LIBS: other libraries, for its own sources only; PUBLIC_LIBS: those that its headers include too.
#
# A static floor without sources is an interface library, so that its headers can stand before its sources.
function(zipccl_add_floor)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;SHARED" "SOURCES;PUBLIC_HEADERS;USES;LIBS;PUBLIC_LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME)
    message(FATAL_ERROR "zipccl_add_floor: bad arguments: ${ARGV}")
  endif()
  list(TRANSFORM arg_USES PREPEND zipccl_)

  set(floorRoot "${PROJECT_BINARY_DIR}/floors/${arg_NAME}")
  file(MAKE_DIRECTORY "${floorRoot}")
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/src/${arg_NAME}" "${floorRoot}/${arg_NAME}" SYMBOLIC)

  # A header that moved to another floor must not stay visible through its old link.
  set(publicRoot "${PROJECT_BINARY_DIR}/public/${arg_NAME}")
  file(REMOVE_RECURSE "${publicRoot}")
  file(MAKE_DIRECTORY "${publicRoot}/zipccl")
  foreach(header IN LISTS arg_PUBLIC_HEADERS)
    cmake_path(ABSOLUTE_PATH header BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/include/zipccl")
    if(NOT EXISTS "${header}")
      message(FATAL_ERROR "zipccl_add_floor(${arg_NAME}): ${header} does not exist")
    endif()
    cmake_path(GET header FILENAME name)
    file(CREATE_LINK "${header}" "${publicRoot}/zipccl/${name}" SYMBOLIC)
    set_property(GLOBAL APPEND PROPERTY ZIPCCL_PUBLIC_HEADERS "${header}")
    set_property(GLOBAL APPEND PROPERTY ZIPCCL_PUBLIC_HEADER_OWNERS "\"${name}\": \"${arg_NAME}\"")
  endforeach()

  if(arg_SHARED)
    set(target ${arg_SHARED})
    add_library(${target} SHARED ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE zipccl_build_options zipccl_coverage_options ${arg_USES}
                                            ${arg_LIBS} ${arg_PUBLIC_LIBS})
    target_include_directories(
      ${target}
      PRIVATE "${floorRoot}"
      PUBLIC "$<BUILD_INTERFACE:${publicRoot}>")
  else()
    set(target zipccl_${arg_NAME})
    set(scope INTERFACE)
    if(arg_SOURCES)
      set(scope PUBLIC)
      add_library(${target} STATIC ${arg_SOURCES})
      target_link_libraries(
        ${target} PRIVATE $<BUILD_INTERFACE:zipccl_build_options> $<BUILD_INTERFACE:zipccl_coverage_options>
                          ${arg_LIBS})
    else()
      add_library(${target} INTERFACE)
    endif()
    target_link_libraries(${target} ${scope} ${arg_USES} ${arg_PUBLIC_LIBS})
    target_include_directories(${target} ${scope} "$<BUILD_INTERFACE:${floorRoot};${publicRoot}>")
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${arg_NAME})
    add_library(zipccl::${arg_NAME} ALIAS ${target})

    add_library(${target}_public INTERFACE)
    list(TRANSFORM arg_USES APPEND _public OUTPUT_VARIABLE usedHeaders)
    target_link_libraries(${target}_public INTERFACE $<LINK_ONLY:${target}> ${usedHeaders})
    target_include_directories(${target}_public INTERFACE "${publicRoot}")
  endif()
  target_include_directories(
    ${target} INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

  # For the tests that hold the build against the table of floors.
  set_property(GLOBAL APPEND PROPERTY ZIPCCL_FLOORS ${arg_NAME})
  set_property(GLOBAL PROPERTY ZIPCCL_FLOOR_TARGET_${arg_NAME} ${target})
endfunction()
