# Writes the commit into a header at every build, touching the header only when the commit changed.
set(HEADLENS_COMMIT_HEADER ${CMAKE_BINARY_DIR}/generated/headlens_commit.hpp)
add_custom_target(headlens_commit
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUT=${HEADLENS_COMMIT_HEADER}
          -P ${CMAKE_CURRENT_LIST_DIR}/WriteCommit.cmake
  BYPRODUCTS ${HEADLENS_COMMIT_HEADER}
  COMMENT "")
