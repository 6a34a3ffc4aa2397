# Libraries come from the distribution. Their include directories are SYSTEM, which hides warnings
# in their headers.
find_package(PkgConfig REQUIRED)
pkg_check_modules(SIMGRID REQUIRED IMPORTED_TARGET simgrid>=3.32)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Ceres REQUIRED)
find_package(ZLIB REQUIRED)
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)

# AUTO: where pybind11 is found.
set(RIGCAST_PYTHON AUTO CACHE STRING "The Python module, of RIGCAST_LIBRARY: AUTO, ON or OFF")
set_property(CACHE RIGCAST_PYTHON PROPERTY STRINGS AUTO ON OFF)
set(RIGCAST_HAS_PYTHON OFF)
if(RIGCAST_LIBRARY AND NOT RIGCAST_PYTHON STREQUAL "OFF")
  find_package(pybind11 2.10 QUIET)
  set(RIGCAST_HAS_PYTHON ${pybind11_FOUND})
  if(RIGCAST_PYTHON STREQUAL "ON" AND NOT pybind11_FOUND)
    message(FATAL_ERROR "RIGCAST_PYTHON=ON needs pybind11: apt-get install pybind11-dev")
  endif()
endif()
