# Headers that nearly every file reads are compiled once instead of once per file: a third of the time of a build.
# CMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without them and shows whether every file includes what it uses.

# Creates the object library NAME from which other targets take the headers (headlens_reuse). Both must have the same
# definitions, so NAME links what its users link.
function(headlens_precompiled name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINKS;OPTIONS;DEFINITIONS" ${ARGN})
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_compile_definitions(${name} PRIVATE ${ARG_DEFINITIONS})
endfunction()
