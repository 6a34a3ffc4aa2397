#pragma once
// Whether there is a GPU that CUDA can use.

#include <string>

namespace rigcast::engine {

/// 13000 is "13.0".
std::string cuda_version_text(int version);

/// How many there are. Where there are none, `why` says so in one line; else it stays empty.
int count_gpus(std::string& why);

}  // namespace rigcast::engine
