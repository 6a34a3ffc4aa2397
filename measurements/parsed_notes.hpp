#pragma once
// Settings of a run that free-text notes state, recognised by the words that sources use.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measurements/measurement.hpp"

namespace rigcast {

struct ParsedNotes {
  std::string backend;           // as a scenario names it; empty: not said
  bool cpu_blas = false;         // a build with one
  bool no_matrix_units = false;  // the driver offers none
  bool no_op_offload = false;    // said, or implied by a CPU BLAS build
  bool cpu_or_gpu = false;       // which of the two computed is not said
  bool did_not_fit = false;      // says the source
  bool no_mmap = false;
  bool kv_in_ram = false;
  bool some_kv_in_ram = false;  // of some layers: no KV policy does that
  bool all_experts_in_ram = false;
  bool automatic_split = false;  // the runtime chose how many layers go to the GPU
  bool numa_distribute = false;
  bool ollama = false;
  bool ik_llama = false;
  bool llamafile = false;
  bool localscore = false;  // means of its nine tests, unless lengths are stated
  std::optional<int> experts_used;
  std::vector<double> tensor_split;
  std::string split_mode;      // "row", "tensor", "graph"; empty: by layers
  bool peer_to_peer = false;   // a GPU reads another's memory over PCI-E
  std::string other_engine;    // a program that no profile models; empty: llama.cpp or a relative
  std::string format_of_ends;  // of embedding and head in a file of one format; empty: not said
  TokenCount context = 0;      // for which a server or sweep allocated its cache; 0: not said
  bool fitted_placement = false;  // the program chose what is in RAM, experts first
};

ParsedNotes parse_notes(const Measurement& m);

}  // namespace rigcast
