#include "tests/peers/llama_bench/command.hpp"

#include <iterator>
#include <thread>
#include <utility>

#include "tests/peers/llama_bench/flags.hpp"

namespace llama_bench {
namespace {

int split_mode(const std::string& text) {
  return one_of(text, {std::begin(kSplitModes), std::end(kSplitModes)});
}

std::string load_mode_of_mmap(const std::string& text) { return truth(text) ? "mmap" : "none"; }

std::vector<float> tensor_split(const std::string& text) {
  std::vector<float> out;
  for (const std::string& part : split(text, "/;")) out.push_back(share(part));
  return out;
}

Format format(const std::string& text) {
  return Format(one_of(text, {"none", "csv", "json", "jsonl", "md"}));
}

// Values of flags that multiply tests; an empty list leaves the default.
struct Lists {
  std::vector<std::string> models, load_modes;
  std::vector<int> n_prompt, n_gen, n_depth, n_batch, n_ubatch, threads, cpu_moe_layers,
      split_modes, main_gpus, flash_attn;
  std::vector<std::pair<int, int>> n_prompt_gen;
  std::vector<CacheType> types_k, types_v;
  std::vector<std::optional<int>> gpu_layers;
  std::vector<bool> no_kv_offload, no_op_offload;
  std::vector<std::vector<float>> tensor_splits;
  std::vector<std::vector<Override>> overrides;
};

std::pair<int, int> prompt_and_gen(const std::string& text) {
  const auto two = split(text, ",");
  if (two.size() != 2) throw Failure("no PROMPT,OUTPUT: " + text);
  return {not_negative(two[0]), not_negative(two[1])};
}

std::vector<Flag> flags(Command& c, Lists& l) {
  const auto set = [](auto& out, auto parse) {
    return [&out, parse](const std::string& text) { out = parse(text); };
  };
  const auto numa = [](const std::string& text) {
    return 1 + one_of(text, {"distribute", "isolate", "numactl"});
  };
  return {
      {{"-h", "--help"}, "", "", [&c](const auto&) { c.help = true; }},
      {{"--numa"}, "<distribute|isolate|numactl>", "default: off", set(c.numa, numa)},
      {{"-r", "--repetitions"}, "<n>", "default: 5", set(c.repetitions, positive)},
      {{"--delay"}, "<seconds>", "before each test, default: 0", set(c.delay, not_negative)},
      {{"-o", "--output"}, "<csv|json|jsonl|md>", "default: md", set(c.output, format)},
      {{"-oe", "--output-err"}, "<csv|json|jsonl|md>", "default: none", set(c.output_err, format)},
      {{"-v", "--verbose"}, "", "the library's log to stderr", [&c](auto&) { c.verbose = true; }},
      {{"--no-warmup"}, "", "", [&c](const auto&) { c.warmup = false; }},
      list({"-m", "--model"}, "<file>", "", l.models, [](const auto& text) { return text; }),
      list({"-p", "--n-prompt"}, "<n>", "default: 512", l.n_prompt, not_negative),
      list({"-n", "--n-gen"}, "<n>", "default: 128", l.n_gen, not_negative),
      {{"-pg"},
       "<pp,tg>",
       "both in one test",
       [&l](const auto& text) { l.n_prompt_gen.push_back(prompt_and_gen(text)); }},
      list({"-d", "--n-depth"}, "<n>", "default: 0", l.n_depth, not_negative),
      list({"-b", "--batch-size"}, "<n>", "default: 2048", l.n_batch, positive),
      list({"-ub", "--ubatch-size"}, "<n>", "default: 512", l.n_ubatch, positive),
      list({"-ctk", "--cache-type-k"}, "<t>", "default: f16", l.types_k, cache_type),
      list({"-ctv", "--cache-type-v"}, "<t>", "default: f16", l.types_v, cache_type),
      list({"-t", "--threads"}, "<n>", "default: one a core", l.threads, positive),
      list({"-ngl", "--n-gpu-layers"}, "<n>", "default: all", l.gpu_layers, gpu_layers),
      list({"-ncmoe", "--n-cpu-moe"}, "<n>", "default: 0", l.cpu_moe_layers, not_negative),
      list({"-sm", "--split-mode"}, "<none|layer|row|tensor>", "default: layer", l.split_modes,
           split_mode),
      list({"-mg", "--main-gpu"}, "<i>", "default: 0", l.main_gpus, not_negative),
      list({"-nkvo", "--no-kv-offload"}, "<0|1>", "default: 0", l.no_kv_offload, truth),
      list({"-fa", "--flash-attn"}, "<on|off|auto>", "default: auto", l.flash_attn, flash_attn),
      list({"-lm", "--load-mode"}, "<auto|none|mmap|mlock|mmap+mlock|dio>", "default: auto",
           l.load_modes, load_mode),
      list({"-mmp", "--mmap"}, "<0|1>", "as -lm none or mmap", l.load_modes, load_mode_of_mmap),
      list({"-ts", "--tensor-split"}, "<ts0/ts1/..>", "default: by free memory", l.tensor_splits,
           tensor_split),
      list({"-ot", "--override-tensor"}, "<pattern>=<buffer>;...", "default: none", l.overrides,
           overrides),
      list({"-nopo", "--no-op-offload"}, "<0|1>", "default: 0", l.no_op_offload, truth),
  };
}

template <class T, class Field>
void multiply(std::vector<Test>& tests, const std::vector<T>& values, Field field) {
  if (values.empty()) return;
  std::vector<Test> out;
  for (const Test& test : tests)
    for (const T& value : values) {
      out.push_back(test);
      field(out.back()) = value;
    }
  tests = std::move(out);
}

// In llama-bench's order: tests of one model follow each other, then those of one depth.
std::vector<Test> tests_of(const Lists& l) {
  std::vector<Test> tests(1);
  tests[0].threads = std::max(1, int(std::thread::hardware_concurrency()));
  multiply(
      tests, l.models, [](Test & t) -> auto& { return t.model.file; });
  multiply(
      tests, l.gpu_layers, [](Test & t) -> auto& { return t.model.gpu_layers; });
  multiply(
      tests, l.cpu_moe_layers, [](Test & t) -> auto& { return t.model.cpu_moe_layers; });
  multiply(
      tests, l.split_modes, [](Test & t) -> auto& { return t.model.split_mode; });
  multiply(
      tests, l.load_modes, [](Test & t) -> auto& { return t.model.load_mode; });
  multiply(
      tests, l.main_gpus, [](Test & t) -> auto& { return t.model.main_gpu; });
  multiply(
      tests, l.tensor_splits, [](Test & t) -> auto& { return t.model.tensor_split; });
  multiply(
      tests, l.overrides, [](Test & t) -> auto& { return t.model.overrides; });
  multiply(
      tests, l.no_op_offload, [](Test & t) -> auto& { return t.no_op_offload; });
  multiply(
      tests, l.n_batch, [](Test & t) -> auto& { return t.n_batch; });
  multiply(
      tests, l.n_ubatch, [](Test & t) -> auto& { return t.n_ubatch; });
  multiply(
      tests, l.types_k, [](Test & t) -> auto& { return t.type_k; });
  multiply(
      tests, l.types_v, [](Test & t) -> auto& { return t.type_v; });
  multiply(
      tests, l.no_kv_offload, [](Test & t) -> auto& { return t.no_kv_offload; });
  multiply(
      tests, l.flash_attn, [](Test & t) -> auto& { return t.flash_attn; });
  multiply(
      tests, l.threads, [](Test & t) -> auto& { return t.threads; });
  multiply(
      tests, l.n_depth, [](Test & t) -> auto& { return t.n_depth; });

  std::vector<std::pair<int, int>> lengths;
  for (const int n : l.n_prompt.empty() ? std::vector{512} : l.n_prompt) lengths.push_back({n, 0});
  for (const int n : l.n_gen.empty() ? std::vector{128} : l.n_gen) lengths.push_back({0, n});
  lengths.insert(lengths.end(), l.n_prompt_gen.begin(), l.n_prompt_gen.end());
  std::vector<Test> out;
  for (const Test& test : tests)
    for (const auto& [prompt, gen] : lengths) {
      if (prompt + gen == 0) continue;
      out.push_back(test);
      out.back().n_prompt = prompt;
      out.back().n_gen = gen;
    }
  if (out.empty()) throw Failure("nothing to measure: -p, -n and -pg are 0");
  return out;
}

}  // namespace

Command parse_command(const std::vector<std::string>& words) {
  Command command;
  Lists lists;
  take_flags(words, flags(command, lists));
  if (!command.help) command.tests = tests_of(lists);
  return command;
}

std::string help_text() {
  Command command;
  Lists lists;
  return "usage: llama-bench [options]\n\noptions:\n" + flag_lines(flags(command, lists)) +
         "\nSeveral values are separated by ','. With the flags and lines of llama.cpp's "
         "llama-bench, over libllama and\nlibggml in the program's folder or in "
         "$LLAMA_CPP_FOLDER.\n";
}

}  // namespace llama_bench
