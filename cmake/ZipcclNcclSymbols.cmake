# SPDX-License-Identifier: Apache-2.0
#
# What is generated from preload/nccl_symbols.txt, the one list of NCCL's functions.

set(ZIPCCL_NCCL_SYMBOLS "${PROJECT_SOURCE_DIR}/preload/nccl_symbols.txt")
set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${ZIPCCL_NCCL_SYMBOLS}")

# zipccl_read_nccl_symbols(<version code> <hooks> <passes> <noTwins>)
#
# Sets lists of names: those with the action hook, those with the action pass, and those of either that have no
# pncclX; of what NCCL had in that version.
function(zipccl_read_nccl_symbols version hooks passes noTwins)
  set(hookNames "")
  set(passNames "")
  set(noTwinNames "")
  file(STRINGS "${ZIPCCL_NCCL_SYMBOLS}" lines REGEX "^nccl")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^(nccl[A-Za-z0-9]+) +(hook|pass) +(twin|-) +2\\.([0-9]+) ")
      message(FATAL_ERROR "${ZIPCCL_NCCL_SYMBOLS}: not understood: ${line}")
    endif()
    set(name ${CMAKE_MATCH_1})
    set(action ${CMAKE_MATCH_2})
    set(twin ${CMAKE_MATCH_3})
    math(EXPR since "20000 + 100 * ${CMAKE_MATCH_4}")
    if(since GREATER version)
      continue()
    endif()
    list(APPEND ${action}Names ${name})
    if(twin STREQUAL "-")
      list(APPEND noTwinNames ${name})
    endif()
  endforeach()
  set(${hooks} ${hookNames} PARENT_SCOPE)
  set(${passes} ${passNames} PARENT_SCOPE)
  set(${noTwins} ${noTwinNames} PARENT_SCOPE)
endfunction()

# zipccl_generate_symbol_table(<file>)
#
# Writes the list as ZIPCCL_NCCL_SYMBOL(name, "action", "what is done").
function(zipccl_generate_symbol_table file)
  set(text "// SPDX-License-Identifier: Apache-2.0\n//\n// Generated from preload/nccl_symbols.txt.\n\n")
  file(STRINGS "${ZIPCCL_NCCL_SYMBOLS}" lines REGEX "^nccl")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^([^ ]+) +([^ ]+) +[^ ]+ +[^ ]+ +(.*)$" "ZIPCCL_NCCL_SYMBOL(\\1, \"\\2\", \"\\3\")" entry "${line}")
    string(APPEND text "${entry}\n")
  endforeach()
  file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
endfunction()

# zipccl_generate_exports(<file> <name>...)
#
# Writes a version script that shows these names and hides all others.
function(zipccl_generate_exports file)
  list(JOIN ARGN ";\n    " names)
  file(
    CONFIGURE
    OUTPUT "${file}"
    CONTENT
      "/* SPDX-License-Identifier: Apache-2.0\n *\n * Generated from preload/nccl_symbols.txt.\n */\n{\n  global:\n    ${names};\n  local:\n    *;\n};\n"
    @ONLY)
endfunction()

# zipccl_generate_fake_symbols(<source> <exports> <version code>)
#
# Writes a source with the names of the fake library: each ncclX is weak and jumps to pncclX, as in the real one; a
# pncclX that nobody writes says ncclInvalidUsage. And a version script with those that NCCL had in that version.
function(zipccl_generate_fake_symbols source exports version)
  zipccl_read_nccl_symbols(99999 hooks passes noTwins)
  set(text
      "// SPDX-License-Identifier: Apache-2.0\n//\n// Generated from preload/nccl_symbols.txt: the symbols of the fake library.\n\n"
  )
  foreach(name IN LISTS hooks passes)
    string(
      APPEND
      text
      "asm(\".pushsection .text\\n.weak ${name}\\n.type ${name}, %function\\n${name}: jmp p${name}@PLT\\n\"\n"
      "    \".size ${name}, . - ${name}\\n.popsection\");\n"
      "extern \"C\" __attribute__((weak, visibility(\"default\"))) int p${name}() { return 5; }\n")
  endforeach()
  file(CONFIGURE OUTPUT "${source}" CONTENT "${text}" @ONLY)

  zipccl_read_nccl_symbols(${version} hooks passes noTwins)
  set(names ${hooks} ${passes})
  set(twins ${names})
  list(REMOVE_ITEM twins ${noTwins} "")
  list(TRANSFORM twins PREPEND p)
  zipccl_generate_exports("${exports}" ${names} ${twins})
endfunction()
