# GPU code is optional: everything builds without it, and a probe then reports that. nvcc is
# searched on the path, in CUDACXX and where NVIDIA's packages install it.
set(RIGCAST_CUDA AUTO CACHE STRING "GPU code: AUTO (where a CUDA toolkit is found), ON or OFF")
set_property(CACHE RIGCAST_CUDA PROPERTY STRINGS AUTO ON OFF)
# At run time a GPU without matching code is refused, instead of giving slow or wrong results.
set(RIGCAST_CUDA_ARCHITECTURES AUTO CACHE STRING
    "GPUs to compile for: AUTO (this machine's, or ALL where it has none), ALL, or a list as of \
CMAKE_CUDA_ARCHITECTURES")
include(RigcastCudaArchitectures)

set(RIGCAST_HAS_CUDA OFF)
if(NOT RIGCAST_CUDA STREQUAL "OFF")
  find_program(RIGCAST_NVCC nvcc PATHS /usr/local/cuda/bin)
  mark_as_advanced(RIGCAST_NVCC)
  if(RIGCAST_NVCC AND NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${RIGCAST_NVCC})
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    rigcast_cuda_architectures(CMAKE_CUDA_ARCHITECTURES ${RIGCAST_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    find_package(CUDAToolkit)
    # cuBLAS itself is loaded when it is first used: engine/cuda/cublas/cublas.cu.
    find_path(RIGCAST_CUBLAS_INCLUDE_DIR cublas_v2.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    mark_as_advanced(RIGCAST_CUBLAS_INCLUDE_DIR)
    if(TARGET CUDA::cudart_static AND RIGCAST_CUBLAS_INCLUDE_DIR)
      set(RIGCAST_HAS_CUDA ON)
    endif()
  endif()
  if(RIGCAST_CUDA STREQUAL "ON" AND NOT RIGCAST_HAS_CUDA)
    message(FATAL_ERROR "RIGCAST_CUDA=ON needs nvcc, the CUDA runtime and cuBLAS's headers: "
                        "put nvcc on the path, or name it in CUDACXX")
  endif()
endif()

if(RIGCAST_HAS_CUDA)
  # CMake before 3.26 does not know nvcc's C++20 flag.
  target_compile_options(rigcast_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${RIGCAST_LAUNCHER})
  endif()
  message(STATUS "GPU code: CUDA ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "GPU code is left out (RIGCAST_CUDA=${RIGCAST_CUDA})")
endif()
