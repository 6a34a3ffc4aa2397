#pragma once
// Traces of Mooncake (FAST '25): a JSON object a line, such as {"timestamp": 3052, "input_length":
// 2287, "output_length": 316, "hash_ids": [0, 42]}: arrival in milliseconds, tokens, and the ids of
// the prompt's blocks of 512 tokens. Prompts that begin with the same ids begin with the same
// tokens.

#include <string>
#include <string_view>

#include "load/trace_builder.hpp"

namespace rigcast {

Result<Trace> parse_mooncake_trace(std::string_view text, const std::string& file);

}  // namespace rigcast
