#pragma once
// Files that are mapped and do not last.

namespace rigcast::cli {

/// From here on, a model file that is shortened while it is read, or whose disk fails, ends the
/// program with exit code 3 and its name, without temporary files.
void tell_of_lost_files();

}  // namespace rigcast::cli
