#include "tests/peers/llama_bench/server_memory.hpp"

#include <nlohmann/json.hpp>

#include "tests/peers/llama_bench/flags.hpp"

namespace llama_bench {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Flag> flags(ServerCommand& c) {
  const auto turn_on = [](bool& out) { return [&out](const std::string&) { out = true; }; };
  const auto name = [](const std::string& text) { return text; };
  const auto unused = [](const std::string&) {};
  ContextSettings& k = c.context;
  return {
      {{"-h", "--help"}, "", "", turn_on(c.help)},
      {{"-v", "--verbose"}, "", "the library's log to stderr", turn_on(c.verbose)},
      one({"-m", "--model"}, "<file>", "", c.model.file, name),
      one({"-c", "--ctx-size"}, "<n>", "default: 0, the model's", c.cache_tokens, not_negative),
      one({"-np", "--parallel"}, "<n>", "slots, default: 4", c.slots, positive),
      one({"-b", "--batch-size"}, "<n>", "default: 2048", k.n_batch, positive),
      one({"-ub", "--ubatch-size"}, "<n>", "default: 512", k.n_ubatch, positive),
      one({"-t", "--threads"}, "<n>", "takes no memory", c.threads, positive),
      one({"-ngl", "--gpu-layers", "--n-gpu-layers"}, "<n>", "default: all", c.model.gpu_layers,
          gpu_layers),
      one({"-ncmoe", "--n-cpu-moe"}, "<n>", "default: 0", c.model.cpu_moe_layers, not_negative),
      one({"--n-cpu-ffn"}, "<n>", "default: 0", c.cpu_ffn_layers, not_negative),
      one({"-ts", "--tensor-split"}, "<ts0,ts1,..>", "default: by free memory",
          c.model.tensor_split, shares),
      one({"-ot", "--override-tensor"}, "<pattern>=<buffer>;...", "default: none",
          c.model.overrides, overrides),
      one({"-lm", "--load-mode"}, "<auto|none|mmap|mlock|mmap+mlock|dio>", "default: auto",
          c.model.load_mode, load_mode),
      one({"-fa", "--flash-attn"}, "<on|off|auto>", "default: auto", k.flash_attn, flash_attn),
      one({"-ctk", "--cache-type-k"}, "<t>", "default: f16", k.type_k, cache_type),
      one({"-ctv", "--cache-type-v"}, "<t>", "default: f16", k.type_v, cache_type),
      {{"-nkvo", "--no-kv-offload"}, "", "", turn_on(k.no_kv_offload)},
      {{"--no-op-offload"}, "", "", turn_on(k.no_op_offload)},
      {{"-cram", "--cache-ram"}, "<mib>", "of evicted prompts, none of which there are", unused},
      {{"--numa"}, "<mode>", "takes no memory", unused},
  };
}

}  // namespace

ServerCommand parse_server_command(const std::vector<std::string>& words) {
  ServerCommand c;
  take_flags(words, flags(c));
  for (int layer = 0; layer < c.cpu_ffn_layers; ++layer)
    c.model.overrides.push_back(
        {"blk\\." + std::to_string(layer) + "\\.ffn_(gate|up|down)\\.weight", "CPU"});
  return c;
}

std::string server_help_text() {
  ServerCommand c;
  return "usage: llama-server-memory [options of llama-server]\n\noptions:\n" +
         flag_lines(flags(c)) +
         "\nLoads the model and makes the context that llama-server would make, and tells the "
         "library's buffers.\n";
}

std::string server_memory(Library& library, const ServerCommand& command) {
  const auto before = library.gpu_memory();
  const Library::Model model = library.load(command.model);
  const Library::Context context =
      library.make_context(*model, command.context, {command.cache_tokens, command.slots});
  const auto after = library.gpu_memory();
  Json out{{"release", library.release()}, {"buffers", Json::array()}, {"gpus", Json::array()}};
  for (const Buffer& b : library.buffer_sizes().buffers())
    out["buffers"].push_back({{"name", b.name}, {"kind", b.kind}, {"bytes", b.bytes}});
  for (std::size_t i = 0; i < after.size(); ++i)
    out["gpus"].push_back(
        {{"name", after[i].name}, {"free_before", before[i].free}, {"free_after", after[i].free}});
  return out.dump();
}

}  // namespace llama_bench
