#pragma once
// Traces as CSV, told apart by the names of their columns:
//   our own   arrival_s,input_tokens,output_tokens[,session,prefix_of,prefix_tokens]
//   Azure     TIMESTAMP,ContextTokens,GeneratedTokens      a date and time, "2023-11-16
//   18:15:46.68" BurstGPT  Timestamp,...,Request tokens,Response tokens,... seconds

#include <string>
#include <string_view>

#include "load/trace_builder.hpp"

namespace rigcast {

Result<Trace> parse_csv_trace(std::string_view text, const std::string& file);

}  // namespace rigcast
