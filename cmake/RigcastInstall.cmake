# What is installed beside programs and libraries, and what packages are made of it.
#   component   package
#   program     rigcast            the program, its data, manual pages and completions
#   library     librigcastX.Y      the shared library          (these three: RIGCAST_LIBRARY)
#   dev         rigcast-dev        rigcast.hpp, the CMake package, an example
#   python      python3-rigcast    the Python module           (where pybind11 is found)
set(root ${PROJECT_SOURCE_DIR})

# The catalogue, which the program and the library look for in share/rigcast.
install(DIRECTORY ${root}/hwprofiles ${root}/models ${root}/runtimes ${root}/loads
        DESTINATION share/rigcast COMPONENT program)
install(DIRECTORY ${root}/examples/suites DESTINATION share/rigcast/examples COMPONENT program)
install(PROGRAMS ${root}/scripts/run_transformers.py DESTINATION share/rigcast/scripts
        COMPONENT program)

set(doc share/doc/rigcast)
file(GLOB scenarios ${root}/examples/*.toml)
file(GLOB documents ${root}/docs/*.md)
install(FILES ${scenarios} DESTINATION ${doc}/examples COMPONENT program)
install(FILES ${documents} DESTINATION ${doc}/docs COMPONENT program)
install(FILES ${root}/README.md ${root}/CHANGELOG.md DESTINATION ${doc} COMPONENT program)

# What the files hold, by name and version, as Debian's packages and ninja's dependencies tell.
find_package(Python3 QUIET COMPONENTS Interpreter)
find_program(RIGCAST_DPKG_QUERY dpkg-query)
mark_as_advanced(RIGCAST_DPKG_QUERY)
if(Python3_FOUND AND RIGCAST_DPKG_QUERY AND CMAKE_GENERATOR STREQUAL "Ninja")
  set(sbom ${PROJECT_BINARY_DIR}/rigcast.spdx.json)
  set(holders rigcast)
  if(RIGCAST_LIBRARY)
    list(APPEND holders rigcast_shared)
  endif()
  if(RIGCAST_HAS_PYTHON)
    list(APPEND holders rigcast_python)
  endif()
  list(TRANSFORM holders REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
  add_custom_command(OUTPUT ${sbom}
    COMMAND ${Python3_EXECUTABLE} ${root}/packaging/sbom.py --version ${PROJECT_VERSION}
            --cuda "${CUDAToolkit_VERSION}" --build ${PROJECT_BINARY_DIR} -o ${sbom} ${files}
    DEPENDS ${holders} ${root}/packaging/sbom.py VERBATIM)
  add_custom_target(rigcast_sbom ALL DEPENDS ${sbom})
  install(FILES ${sbom} DESTINATION ${doc} COMPONENT program)
endif()

include(RigcastDeb)
