# SPDX-License-Identifier: Apache-2.0
#
# Floors: the static libraries that the product is made of. A floor sees the headers of another only when it
# links its target, because each floor has an include root of its own in the build tree, which holds nothing
# but links to its headers (docs/decisions/0001-floors-by-include-roots.md):
#
#   <build>/floors/codec/codec       -> <source>/src/codec              #include "codec/layout.hpp"
#   <build>/floors/codec/zipccl/codec.hpp -> <source>/include/zipccl/codec.hpp
#                                                                       #include <zipccl/codec.hpp>

# zipccl_add_floor(NAME <floor> [SOURCES <file>...] [PUBLIC_HEADERS <name>...]
#                  [USES <floor>...] [LIBS <target>...])
#
# Adds the target zipccl_<floor> from the sources in src/<floor>. PUBLIC_HEADERS names the files of
# include/zipccl/ that belong to this floor, USES the floors below whose headers it may include, LIBS other
# libraries that only its own sources need. A floor without sources is an interface library, so that its
# headers and what it uses can stand before its first source does.
function(zipccl_add_floor)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;PUBLIC_HEADERS;USES;LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME)
    message(FATAL_ERROR "zipccl_add_floor: bad arguments: ${ARGV}")
  endif()

  set(target zipccl_${arg_NAME})
  set(root "${PROJECT_BINARY_DIR}/floors/${arg_NAME}")
  file(MAKE_DIRECTORY "${root}/zipccl")
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/src/${arg_NAME}" "${root}/${arg_NAME}" SYMBOLIC)
  set(headers "")
  foreach(header IN LISTS arg_PUBLIC_HEADERS)
    set(path "${PROJECT_SOURCE_DIR}/include/zipccl/${header}")
    if(NOT EXISTS "${path}")
      message(FATAL_ERROR "zipccl_add_floor(${arg_NAME}): ${path} does not exist")
    endif()
    file(CREATE_LINK "${path}" "${root}/zipccl/${header}" SYMBOLIC)
    list(APPEND headers "${path}")
  endforeach()
  set_property(GLOBAL APPEND PROPERTY ZIPCCL_PUBLIC_HEADERS ${headers})

  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:zipccl_build_options> ${arg_LIBS})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  list(TRANSFORM arg_USES PREPEND zipccl_)
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${root}>)
  target_link_libraries(${target} ${scope} ${arg_USES})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${arg_NAME})
  add_library(zipccl::${arg_NAME} ALIAS ${target})
endfunction()

# Writes zipccl/version.h from the project's version, into the include root of the base floor and into the
# list of headers to install.
function(zipccl_generate_version_header)
  set(path "${PROJECT_BINARY_DIR}/floors/base/zipccl/version.h")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/version.h.in" "${path}" @ONLY)
  set_property(GLOBAL APPEND PROPERTY ZIPCCL_PUBLIC_HEADERS "${path}")
endfunction()
