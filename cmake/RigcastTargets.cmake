# rigcast_add_library(core SOURCES a.cpp b.cpp LINK fmt::fmt)
#   A library of the star, with its headers checked: every public header compiles alone.
function(rigcast_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;LINK;LINK_PUBLIC" ${ARGN})
  add_library(rigcast_${name} STATIC ${ARG_SOURCES})
  add_library(rigcast::${name} ALIAS rigcast_${name})
  target_link_libraries(rigcast_${name}
    PUBLIC rigcast_options ${ARG_LINK_PUBLIC} PRIVATE ${ARG_LINK})
  if(RIGCAST_TESTS)
    rigcast_check_headers(${name})
  endif()
endfunction()

# Compiles one translation unit for each header of the folder and its subfolders, with nothing but
# the #include.
function(rigcast_check_headers name)
  set(here ${CMAKE_CURRENT_SOURCE_DIR})
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${here}/*.hpp)
  set(sources)
  foreach(header ${headers})
    string(REPLACE "/" "_" stem ${header})
    set(source ${CMAKE_CURRENT_BINARY_DIR}/headers/${stem}.cpp)
    if(NOT EXISTS ${source})
      file(WRITE ${source} "#include \"${header}\"  // compiles alone\n")
    endif()
    list(APPEND sources ${source})
  endforeach()
  add_library(rigcast_${name}_headers OBJECT ${sources})
  target_link_libraries(rigcast_${name}_headers PRIVATE rigcast_${name})
  if(name STREQUAL "sim")
    target_link_libraries(rigcast_${name}_headers PRIVATE PkgConfig::SIMGRID)
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
