# Writes a header with the GNU build-ids of FILES, the programs and libraries that the worker replaces:
# cmake -DREADELF=... -DFILES=... -DHEADER=... -P builds.cmake
set(builds "")
foreach(file IN LISTS FILES)
  execute_process(COMMAND ${READELF} --notes ${file} OUTPUT_VARIABLE notes COMMAND_ERROR_IS_FATAL ANY)
  if(NOT notes MATCHES "Build ID: ([0-9a-f]+)")
    message(FATAL_ERROR "${file} has no GNU build-id, so the worker cannot tell it from another compiler.")
  endif()
  string(APPEND builds "\"${CMAKE_MATCH_1}\", ")
endforeach()
file(WRITE ${HEADER} "// Made by builds.cmake.\n#pragma once\ninline constexpr const char *const linked_builds[] = {${builds}};\n")
