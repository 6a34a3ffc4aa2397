#pragma once
// Which memory nodes hold a runtime's weights, and whose cores read them.

#include <string_view>

#include "core/text/toml_reader.hpp"

namespace rigcast {

/// Named as llama.cpp's `--numa` names them; `mirror` as its pull requests 16000 and 27986 do. On a
/// machine with one memory node they are the same.
enum class NumaPolicy {
  kNone,        // in the node of the thread that touched them first, the one that loads them, while
                // threads of all nodes read them: what Linux does with a mapped file
  kDistribute,  // in all nodes evenly, and threads of all nodes read them, as interleaved pages
  kIsolate,     // in one node, whose threads alone work
  kMirror,      // in every node, whose threads read their own copy
};
std::string_view name(NumaPolicy policy);

/// The policy under `numa` of a scenario's table [runtime]; absent: none. Another name is refused.
NumaPolicy read_numa(const TomlTable& runtime);

}  // namespace rigcast
