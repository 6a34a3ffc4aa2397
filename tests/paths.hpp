#pragma once
// Where this tree and its program are. Functions, not macros on the command line: a compiler's
// cache has an object for every clone then.

#include <string>
#include <string_view>

namespace rigcast::test {

/// The repository.
const std::string& source_dir();
/// What is `below` it: "/docs/model.md".
std::string source_path(std::string_view below);
/// The program `rigcast` of this build.
const std::string& program();

}  // namespace rigcast::test
