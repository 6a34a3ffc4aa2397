# Options, and compiler flags of all targets of this project.
option(RIGCAST_TESTS "Build tests and benchmarks" ON)
option(RIGCAST_SANITIZE "Address and undefined-behaviour sanitizers" OFF)
option(RIGCAST_FUZZ "Fuzzing targets; needs clang" OFF)
option(RIGCAST_PRECOMPILE "Precompile headers; without, every source must include what it uses" ON)
option(RIGCAST_WERROR "Warnings in our own code are errors" ON)
option(RIGCAST_LIBRARY "librigcast.so, and the Python module where pybind11 is found" OFF)
option(RIGCAST_REPRODUCIBLE "The same bytes wherever the source is; no data but installed ones" OFF)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(RIGCAST_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/ccache.sh ${PROJECT_SOURCE_DIR})
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${RIGCAST_LAUNCHER})
  endif()
endif()

# Hidden symbols need no table of addresses: position-independent code is as fast as other then.
if(RIGCAST_LIBRARY)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
endif()

add_library(rigcast_options INTERFACE)
target_compile_features(rigcast_options INTERFACE cxx_std_20)
target_include_directories(rigcast_options INTERFACE ${PROJECT_SOURCE_DIR})
# C++ code that nvcc generates does not pass -Wpedantic.
set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion)
target_compile_options(rigcast_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>"
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns about overlapping copies inside std::string, wrongly (GCC bug 105651).
  target_compile_options(rigcast_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC collects its garbage from 512 MiB on, not from 128 MiB: a tenth less time to compile.
  target_compile_options(rigcast_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=524288>")
endif()
if(RIGCAST_REPRODUCIBLE)
  # Not in other builds: the flag is part of what ccache looks up, and theirs is warm.
  set(maps -ffile-prefix-map=${PROJECT_BINARY_DIR}=build -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
  target_compile_options(rigcast_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${maps}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=$<JOIN:${maps},$<COMMA>>>")
endif()
# Libraries of which nothing is called are not loaded.
target_link_options(rigcast_options INTERFACE LINKER:--as-needed)
if(RIGCAST_WERROR)
  target_compile_options(rigcast_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(RIGCAST_SANITIZE)
  set(sanitizers
    -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_compile_options(rigcast_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${sanitizers}>")
  target_link_options(rigcast_options INTERFACE -fsanitize=address,undefined)
  # GCC warns about uninitialized variables in instrumented code, wrongly (std::function in
  # <regex>).
  target_compile_options(rigcast_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
endif()
if(RIGCAST_FUZZ)
  # All code is instrumented for coverage; the targets link libFuzzer itself.
  target_compile_options(rigcast_options INTERFACE -fsanitize=fuzzer-no-link,address,undefined
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
endif()
