# rigcast_add_library(core SOURCES a.cpp b.cpp LINK fmt::fmt)
#   A library of the star, with its headers checked: every public header compiles alone.
function(rigcast_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;LINK;LINK_PUBLIC" ${ARGN})
  add_library(rigcast_${name} STATIC ${ARG_SOURCES})
  add_library(rigcast::${name} ALIAS rigcast_${name})
  target_link_libraries(rigcast_${name}
    PUBLIC rigcast_options ${ARG_LINK_PUBLIC} PRIVATE ${ARG_LINK})
  rigcast_precompile_headers(rigcast_${name} LINK ${ARG_LINK})
  if(RIGCAST_TESTS)
    rigcast_check_headers(${name})
  endif()
endfunction()

# rigcast_precompile_headers(target LINK fmt::fmt HEADERS <more.hpp>)
#   Compiles once what most sources of a target include, which took half of the time of a source:
#   the standard library, those of the packages that it links, and HEADERS.
function(rigcast_precompile_headers target)
  cmake_parse_arguments(ARG "" "" "LINK;HEADERS" ${ARGN})
  if(NOT RIGCAST_PRECOMPILE)
    return()
  endif()
  set(headers <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map> <memory>
              <optional> <set> <span> <string> <string_view> <utility> <vector>)
  if(fmt::fmt IN_LIST ARG_LINK)
    list(APPEND headers <fmt/format.h>)
  endif()
  if(nlohmann_json::nlohmann_json IN_LIST ARG_LINK)
    list(APPEND headers <nlohmann/json.hpp>)
  endif()
  list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>")
  target_precompile_headers(${target} PRIVATE ${headers} ${ARG_HEADERS})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 warns about endless copies inside std::string, wrongly (GCC bug 105651): of headers
    # that are not precompiled it does not.
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow;-Wno-array-bounds>")
  endif()
endfunction()

# Compiles the headers of the folder and its subfolders alone. A header that a source of its name
# includes first is compiled alone with that source (tests/tidy checks the order); every other one
# gets a translation unit with nothing but the #include. Libraries of one folder share these units.
function(rigcast_check_headers name)
  set(here ${CMAKE_CURRENT_SOURCE_DIR})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${here})
  string(REPLACE "/" "_" folder ${folder})
  if(TARGET rigcast_${folder}_headers)
    return()
  endif()
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${here}/*.hpp)
  set(units)
  foreach(header ${headers})
    string(REGEX REPLACE "\\.hpp$" "" stem ${PROJECT_SOURCE_DIR}/${header})
    if(EXISTS ${stem}.cpp OR (RIGCAST_HAS_CUDA AND EXISTS ${stem}.cu))
      continue()
    endif()
    string(REPLACE "/" "_" unit ${header})
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/headers/${unit}.cpp)
    file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"  // compiles alone\n")
    list(APPEND units ${unit})
  endforeach()
  if(units)
    add_library(rigcast_${folder}_headers OBJECT ${units})
    target_link_libraries(rigcast_${folder}_headers PRIVATE rigcast_${name})
  endif()
endfunction()

# rigcast_optimize_for_build_time(target...)
#   Compiles C++ of release builds at -O1, in two thirds of the time of -O3. For code that parses,
#   prints or tests, and runs once a command. Forecasts and the engine keep -O3.
function(rigcast_optimize_for_build_time)
  set(release_cxx $<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<${release_cxx}:-O1>)
  endforeach()
endfunction()
