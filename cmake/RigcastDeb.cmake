# cpack -G DEB: Debian packages of the components. With the preset "package" and SOURCE_DATE_EPOCH
# they have the same bytes wherever they are made: scripts/package.sh.
set(library librigcast${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(components program)
if(RIGCAST_LIBRARY)
  list(APPEND components library dev)
endif()
if(RIGCAST_HAS_PYTHON)
  list(APPEND components python)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PACKAGE_NAME rigcast)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR rigcast)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own title
set(RIGCAST_MAINTAINER "rigcast developers <rigcast@example.org>" CACHE STRING
    "Who answers for the packages")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${RIGCAST_MAINTAINER})
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# Each package has a changelog; CHANGELOG.md is the program's.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(changelog ${PROJECT_BINARY_DIR}/packaging/changelog)
file(WRITE ${changelog} "rigcast (${PROJECT_VERSION}) unstable; urgency=medium\n\n\
  * What is new: CHANGELOG.md in the documents of the package rigcast.\n\n\
 -- ${RIGCAST_MAINTAINER}  ${date}\n")
find_program(RIGCAST_GZIP gzip)
mark_as_advanced(RIGCAST_GZIP)
if(RIGCAST_GZIP)
  execute_process(COMMAND ${RIGCAST_GZIP} -9nf ${changelog})
  set(changelog ${changelog}.gz)
endif()

# deb(component package section title text...): what all packages have, and their documents.
function(deb component package section title)
  if(NOT component IN_LIST components)
    return()
  endif()
  string(TOUPPER ${component} C)
  set(prefix CPACK_DEBIAN_${C})
  set(${prefix}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(${prefix}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(${prefix}_PACKAGE_SHLIBDEPS ON PARENT_SCOPE)
  string(JOIN "\n" text ${title} ${ARGN})
  set(CPACK_COMPONENT_${C}_DESCRIPTION ${text} PARENT_SCOPE)
  set(${prefix}_DESCRIPTION ${text} PARENT_SCOPE)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/copyright ${changelog}
          DESTINATION share/doc/${package} COMPONENT ${component})
endfunction()

set(same_version "(= ${PROJECT_VERSION})")
deb(program rigcast science "Forecast how a large language model runs on a machine"
    "Time to first token, tokens per second as the context grows, memory in"
    "every tier, and the context lengths at which speed collapses, before the"
    "machine is bought. Plans placements, compares machines, runs models, and"
    "checks its forecasts by these runs.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS python3)
deb(library ${library} libs "Forecasts of language models on machines, as a library"
    "The shared library, which programs call by rigcast.hpp.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "rigcast ${same_version}")  # the catalogue
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/library/triggers)
deb(dev rigcast-dev libdevel "Forecasts of language models on machines, for programs"
    "rigcast.hpp, a package for CMake's find_package(), and an example.")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${library} ${same_version}")
deb(python python3-rigcast python "Forecasts of language models on machines, from Python"
    "import rigcast; rigcast.forecast({...}) is a dictionary.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "rigcast ${same_version}, python3 (>= 3.11), \
python3 (<< 3.12)")

include(CPack)
