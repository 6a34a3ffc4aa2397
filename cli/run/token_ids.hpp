#pragma once
// A file of token ids, as --tokens takes it.

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast::cli {

/// Ids below `vocabulary`, with blanks, commas or lines between them. Errors name `file`, line and
/// column: a word that is no such id; a file without ids.
Result<std::vector<std::int32_t>> read_token_ids(std::istream& in, const std::string& file,
                                                 std::int64_t vocabulary);

}  // namespace rigcast::cli
