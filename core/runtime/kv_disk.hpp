#pragma once
// The room on a disk for keys and values, as users state it: "DIR[:SIZE]".

#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/units.hpp"

namespace rigcast {

struct KvDisk {
  std::string folder;
  Bytes size;
};

/// Without a size, 32 GiB. What follows the last colon is one if it reads as one. Errors: no
/// folder, or a size that is none: of what begins with a digit.
Result<KvDisk> parse_kv_disk(std::string_view text);

}  // namespace rigcast
