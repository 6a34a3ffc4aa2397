#pragma once
// Memory that llama-server would take: its flags for a model and a context, and the library's own
// account of the buffers that it made for them. Nothing is computed.

#include <string>
#include <vector>

#include "tests/peers/llama_bench/library.hpp"
#include "tests/peers/llama_bench/settings.hpp"

namespace llama_bench {

struct ServerCommand {
  ModelSettings model;
  ContextSettings context;
  int cache_tokens = 0;    // -c; 0: the model's
  int slots = 4;           // -np
  int cpu_ffn_layers = 0;  // --n-cpu-ffn, which older releases have not: as tensor overrides
  int threads = 0;         // has no part in memory
  bool verbose = false;
  bool help = false;
};

/// Reads the words after the program's name. Throws Failure for a flag that llama-server does not
/// know, or whose memory is not told here.
ServerCommand parse_server_command(const std::vector<std::string>& words);

std::string server_help_text();

/// A line of JSON: `buffers` with name, kind (model, KV, RS, compute, output) and bytes, and `gpus`
/// with the free bytes before and after. Throws Failure where the library cannot load the model or
/// make the context.
std::string server_memory(Library& library, const ServerCommand& command);

}  // namespace llama_bench
