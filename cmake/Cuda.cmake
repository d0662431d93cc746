# The CUDA back end is a plugin, libheadlens_cuda.so beside the program: nothing else links CUDA.
# HEADLENS_CUDA: ON, OFF, or auto for "where nvcc is found". Sets HEADLENS_HAS_CUDA.
set(HEADLENS_CUDA auto CACHE STRING "Build the CUDA back end: auto, ON or OFF")
set_property(CACHE HEADLENS_CUDA PROPERTY STRINGS auto ON OFF)
set(HEADLENS_HAS_CUDA OFF)
if(HEADLENS_CUDA STREQUAL "OFF" OR (HEADLENS_CUDA STREQUAL "auto" AND SKBUILD))
  return()
endif()

# scripts/setup cuda leaves the compiler in .cuda; a toolkit of the system is in /usr/local/cuda.
find_program(HEADLENS_NVCC nvcc HINTS ${PROJECT_SOURCE_DIR}/.cuda/bin ENV CUDA_PATH PATH_SUFFIXES bin PATHS /usr/local/cuda/bin)
if(NOT HEADLENS_NVCC)
  if(HEADLENS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "HEADLENS_CUDA is ON, but nvcc was not found: run scripts/setup cuda, or set HEADLENS_NVCC")
  endif()
  return()
endif()
set(CMAKE_CUDA_COMPILER ${HEADLENS_NVCC})
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "90")  # newer ones compile the first at their first run
endif()
enable_language(CUDA)
find_package(CUDAToolkit 12 REQUIRED)
set(HEADLENS_HAS_CUDA ON)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # older CMake does not know that nvcc has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
