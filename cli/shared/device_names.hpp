#pragma once
// The devices of --device: the engine's backends.

#include <string>
#include <vector>

namespace rigcast::cli {

/// As --device takes them: "cpu", "cuda".
std::vector<std::string> device_names();
/// As the help lists them: "cpu", "cuda (an NVIDIA GPU)".
std::vector<std::string> device_texts();

}  // namespace rigcast::cli
