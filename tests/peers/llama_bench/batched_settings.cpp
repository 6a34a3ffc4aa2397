#include "tests/peers/llama_bench/batched_settings.hpp"

#include <algorithm>
#include <thread>

#include "tests/peers/llama_bench/flags.hpp"

namespace llama_bench {
namespace {

std::vector<Flag> flags(BatchedCommand& c) {
  const auto turn_on = [](bool& out) { return [&out](const std::string&) { out = true; }; };
  const auto name = [](const std::string& text) { return text; };
  const auto is_jsonl = [](const std::string& text) { return one_of(text, {"md", "jsonl"}) == 1; };
  const auto no_mmap = [&c](const std::string&) { c.model.load_mode = "none"; };
  ContextSettings& k = c.context;
  return {
      {{"-h", "--help"}, "", "", turn_on(c.help)},
      {{"-v", "--verbose"}, "", "the library's log to stderr", turn_on(c.verbose)},
      one({"-m", "--model"}, "<file>", "", c.model.file, name),
      one({"-c", "--ctx-size"}, "<n>", "of all sequences, default: 0, the model's", c.cache_tokens,
          not_negative),
      one({"-b", "--batch-size"}, "<n>", "default: 2048", k.n_batch, positive),
      one({"-ub", "--ubatch-size"}, "<n>", "default: 512", k.n_ubatch, positive),
      one({"-t", "--threads"}, "<n>", "default: one a core", c.threads, positive),
      one({"-tb", "--threads-batch"}, "<n>", "default: as -t", c.threads_batch, positive),
      one({"-ngl", "--gpu-layers", "--n-gpu-layers"}, "<n>", "default: all", c.model.gpu_layers,
          gpu_layers),
      one({"-ncmoe", "--n-cpu-moe"}, "<n>", "default: 0", c.model.cpu_moe_layers, not_negative),
      one({"-ts", "--tensor-split"}, "<ts0,ts1,..>", "default: by free memory",
          c.model.tensor_split, shares),
      one({"-ot", "--override-tensor"}, "<pattern>=<buffer>;...", "default: none",
          c.model.overrides, overrides),
      one({"-lm", "--load-mode"}, "<auto|none|mmap|mlock|mmap+mlock|dio>", "default: auto",
          c.model.load_mode, load_mode),
      {{"--no-mmap"}, "", "as -lm none", no_mmap},
      one({"-fa", "--flash-attn"}, "<on|off|auto>", "default: auto", k.flash_attn, flash_attn),
      one({"-ctk", "--cache-type-k"}, "<t>", "default: f16", k.type_k, cache_type),
      one({"-ctv", "--cache-type-v"}, "<t>", "default: f16", k.type_v, cache_type),
      {{"-nkvo", "--no-kv-offload"}, "", "", turn_on(k.no_kv_offload)},
      {{"--no-op-offload"}, "", "", turn_on(k.no_op_offload)},
      {{"-kvu", "--kv-unified"}, "", "sequences share the cache's cells", turn_on(c.cache_unified)},
      {{"-pps"}, "", "one prompt for all sequences", turn_on(c.prompt_shared)},
      list({"-npp"}, "<n0,n1,...>", "tokens of each prompt", c.n_pp, positive),
      list({"-ntg"}, "<n0,n1,...>", "tokens of each output", c.n_tg, positive),
      list({"-npl"}, "<n0,n1,...>", "sequences at once", c.n_pl, positive),
      one({"--output-format"}, "<md|jsonl>", "default: md", c.jsonl, is_jsonl),
  };
}

}  // namespace

BatchedCommand parse_batched_command(const std::vector<std::string>& words) {
  BatchedCommand c;
  take_flags(words, flags(c));
  if (c.help) return c;
  if (c.threads == 0) c.threads = std::max(1, int(std::thread::hardware_concurrency()));
  if (c.threads_batch == 0) c.threads_batch = c.threads;
  for (const auto& [flag, values] :
       {std::pair{"-npp", &c.n_pp}, {"-ntg", &c.n_tg}, {"-npl", &c.n_pl}})
    if (values->empty()) throw Failure(std::string("nothing to measure: ") + flag + " is missing");
  return c;
}

std::string batched_help_text() {
  BatchedCommand c;
  return "usage: llama-batched-bench [options]\n\noptions:\n" + flag_lines(flags(c)) +
         "\nWith the flags and lines of llama.cpp's llama-batched-bench, over libllama and libggml "
         "in the program's\nfolder or in $LLAMA_CPP_FOLDER.\n";
}

}  // namespace llama_bench
