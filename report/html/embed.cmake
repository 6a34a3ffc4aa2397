# cmake -DROOT=web -DFILES=a.js|b.css -DOUT=assets.cpp -P embed.cmake
# Writes the files as strings of C++, each with the SHA-256 that a page's policy names. Comments and
# indents of what is written here are left out: pages are read by browsers.
set(out "#include \"report/html/assets.hpp\"\n\n#include <cstdlib>\n\nnamespace rigcast {\n")
string(APPEND out "namespace {\n\nconstexpr Asset kAssets[] = {\n")
string(REPLACE "|" ";" files "${FILES}")
foreach(name IN LISTS files)
  file(READ "${ROOT}/${name}" text)
  if(NOT name MATCHES "^vendor/")
    string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" text "${text}")
    string(REGEX REPLACE "\n[ \n]*" "\n" text "${text}")
    string(REGEX REPLACE "\n//[^\n]*" "" text "${text}")
  endif()
  string(SHA256 hash "${text}")
  string(APPEND out "    {\"${name}\", R\"_web_(${text})_web_\",\n     \"${hash}\"},\n")
endforeach()
string(APPEND out "};\n\n}  // namespace\n\nconst Asset& asset(std::string_view name) {\n"
  "  for (const Asset& a : kAssets)\n    if (a.name == name) return a;\n  std::abort();\n}\n\n"
  "}  // namespace rigcast\n")
file(WRITE "${OUT}" "${out}")
