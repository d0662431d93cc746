# `find_package(headlens)` then `target_link_libraries(app headlens::headlens)`.
include(CMakePackageConfigHelpers)
install(DIRECTORY include/headlens DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS ${HEADLENS_TARGETS} headlens EXPORT headlensTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT headlensTargets NAMESPACE headlens:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/headlens)
configure_package_config_file(cmake/headlensConfig.cmake.in ${CMAKE_BINARY_DIR}/headlensConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/headlens)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/headlensConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/headlensConfig.cmake ${CMAKE_BINARY_DIR}/headlensConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/headlens)
