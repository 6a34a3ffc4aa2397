# Tests the choice of GPUs for which kernels are compiled: cmake -DNVCC=... -P architectures.cmake
cmake_minimum_required(VERSION 3.22)
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/RigcastCudaArchitectures.cmake)
set(CMAKE_CUDA_COMPILER ${NVCC})

function(expect what got expected)
  if(NOT got STREQUAL expected)
    message(FATAL_ERROR "${what}: \"${got}\", expected \"${expected}\"")
  endif()
endfunction()

# A list does not change, whether it has one element or more.
rigcast_cuda_architectures(got 86)
expect("one" "${got}" "86")
rigcast_cuda_architectures(got 75-virtual 90)
expect("two" "${got}" "75-virtual;90")

# ALL: code for each capability, and PTX for later ones.
rigcast_cuda_architectures(all ALL)
foreach(capability 75-real 80-real 86-real 89-real 90-real)
  if(NOT capability IN_LIST all)
    message(FATAL_ERROR "ALL is ${all}, without ${capability}")
  endif()
endforeach()
list(GET all -1 latest)
if(latest MATCHES "-")
  message(FATAL_ERROR "ALL ends with ${latest}, without PTX for later GPUs")
endif()

# A GPU that nvcc does not know does not stop the build.
rigcast_does_nvcc_know(known 75-real 90-real)
expect("GPUs of today" "${known}" TRUE)
rigcast_does_nvcc_know(known 90-real 990-real)
expect("a GPU of tomorrow" "${known}" FALSE)

# Without a GPU, AUTO is ALL.
rigcast_gpus_of_this_machine(here)
rigcast_cuda_architectures(auto AUTO)
if(here)
  expect("AUTO beside a GPU" "${auto}" "${here}")
else()
  expect("AUTO without a GPU" "${auto}" "${all}")
endif()
