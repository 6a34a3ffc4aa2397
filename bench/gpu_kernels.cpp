// Where the time of a token goes on a GPU, kernel by kernel, as CUPTI records it inside the graph
// that the engine runs.
//   bench_gpu_kernels MODEL QUANT [DEPTH | TOKENS@DEPTH]...    one table for each; 512 without one
// TOKENS@DEPTH: of a prompt's batch of so many tokens instead of a token.
// A kernel that starts early waits for the one before it: its time is counted from that one's end
// to its own, so that the times of all kernels, and those without one, are the time of a token.
#include <cupti.h>
#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "engine/backends/cuda/make_cuda_executor.hpp"
#include "engine/run/request.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

constexpr TokenCount kPrompt = 16, kOutput = 34;

void check(CUptiResult result) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  throw std::runtime_error(fmt::format("CUPTI: {}", text ? text : "failed"));
}

struct KernelRun {
  std::string name;
  std::uint64_t start, end;  // ns
};

std::vector<KernelRun> recorded;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records) {
  constexpr std::size_t kBytes = std::size_t(8) << 20;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBytes));
  *bytes = *buffer ? kBytes : 0;
  *records = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  const std::unique_ptr<std::uint8_t, decltype(&std::free)> owned(buffer, &std::free);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    recorded.push_back({kernel->name ? kernel->name : "?", kernel->start, kernel->end});
  }
}

// "void a::b::f<...>(...)" as "f<...>".
std::string short_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? text.get() : mangled;
  for (const char* noise : {"rigcast::engine::cuda::", "rigcast::engine::", "rigcast::",
                            "(anonymous namespace)::", "void "})
    for (auto at = name.find(noise); at != std::string::npos; at = name.find(noise))
      name.erase(at, std::string(noise).size());
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

struct Cost {
  double ns = 0;
  int calls = 0;
};

bool ends_token(const KernelRun& k) { return k.name.find("argmax_kernel") != std::string::npos; }

// Costs of the kernels behind `before`.
std::map<std::string, Cost> costs_of(std::span<const KernelRun> runs, std::uint64_t before) {
  std::map<std::string, Cost> by_name;
  for (const KernelRun& k : runs) {
    const auto add = [&](const std::string& name, std::uint64_t from, std::uint64_t to) {
      by_name[name].ns += double(to - std::min(from, to));
      ++by_name[name].calls;
    };
    if (k.start > before) add("(no kernel)", before, k.start);
    add(short_name(k.name), std::max(before, k.start), k.end);
    before = std::max(before, k.end);
  }
  return by_name;
}

std::vector<KernelRun> take_recorded() {
  check(cuptiActivityFlushAll(1));
  check(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  auto runs = std::exchange(recorded, {});
  std::ranges::sort(runs, {}, &KernelRun::end);
  return runs;
}

// `times`: of the tokens, or batches.
void print(const std::map<std::string, Cost>& by_name, int times, TokenCount tokens) {
  std::vector<std::pair<std::string, Cost>> rows(by_name.begin(), by_name.end());
  std::ranges::sort(rows, [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  double all = 0;
  for (const auto& [name, cost] : rows) all += cost.ns;
  fmt::print("{:>9} {:>7} {:>7} {:>6}  kernel\n", tokens > 1 ? "us/batch" : "us/token", "share",
             "calls", "us");
  for (const auto& [name, cost] : rows)
    fmt::print("{:>9.1f} {:>6.1f} % {:>6.1f} {:>6.2f}  {}\n", cost.ns / times / 1e3,
               100 * cost.ns / all, double(cost.calls) / times, cost.ns / cost.calls / 1e3, name);
  fmt::print("{:>9.1f} of {} {}: {:.0f} tok/s\n\n", all / times / 1e3, times,
             tokens > 1 ? "batch" : "tokens", 1e9 * double(tokens) * times / all);
}

// Runs with kernels recorded, and before that once to prepare buffers, clocks and graphs.
template <class Run>
std::vector<KernelRun> traced(Executor& executor, TokenCount depth, const Run& run) {
  for (const bool records : {false, true}) {
    executor.truncate(0);
    executor.fill(std::max<TokenCount>(0, depth));
    if (records) check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    run();
  }
  return take_recorded();
}

void trace_tokens(Executor& executor, TokenCount depth) {
  const auto prompt = random_prompt(kPrompt, executor.model().spec.vocabulary, 1);
  const auto runs = traced(executor, depth - kPrompt, [&] {
    Sampler sampler({});
    run_request(executor, prompt, kOutput, sampler);
  });
  const auto first = std::ranges::find_if(runs, ends_token);
  const auto last = std::find_if(runs.rbegin(), runs.rend(), ends_token).base();
  const auto tokens = int(std::ranges::count_if(runs, ends_token)) - 1;
  if (tokens < 1) throw std::runtime_error("no tokens were traced");
  fmt::print("{} after {} tokens\n", executor.model().spec.name, depth);
  print(costs_of({first + 1, last}, first->end), tokens, 1);
}

void trace_batch(Executor& executor, TokenCount tokens, TokenCount depth) {
  const auto prompt = random_prompt(tokens, executor.model().spec.vocabulary, 1);
  const auto runs = traced(executor, depth, [&] { executor.forward(prompt, Logits::kLast); });
  if (runs.empty()) throw std::runtime_error("no batch was traced");
  fmt::print("{}, {} tokens after {}\n", executor.model().spec.name, tokens, depth);
  print(costs_of(runs, runs.front().start), 1, tokens);
}

// "DEPTH" or "TOKENS@DEPTH"; no tokens: the time of a token.
struct Wanted {
  TokenCount tokens = 0, depth = 512;
};
TokenCount count_of(std::string_view text) {
  TokenCount n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < 0 || n > (1 << 22))
    throw std::runtime_error(fmt::format("no number of tokens: {}", text));
  return n;
}
Wanted wanted(std::string_view text) {
  const auto at = text.find('@');
  if (at == text.npos) return {0, count_of(text)};
  return {std::max<TokenCount>(1, count_of(text.substr(0, at))), count_of(text.substr(at + 1))};
}

int run(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: bench_gpu_kernels MODEL QUANT [DEPTH | TOKENS@DEPTH]...\n");
    return 2;
  }
  const char* data = std::getenv("RIGCAST_DATA");  // for a build that was moved to another machine
  const auto spec = Catalogue{data ? data : RIGCAST_SOURCE_DIR}.model(argv[1]);
  if (!spec) throw std::runtime_error(spec.error().text());
  const auto mix = QuantMix::from_name(argv[2]);
  if (!mix) throw std::runtime_error(fmt::format("no mix {}", argv[2]));
  const auto table = make_tensor_table(*spec, *mix);
  if (!table) throw std::runtime_error(table.error().text());
  check(cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
  const auto executor = make_synthetic_cuda_executor(*spec, *table, 1, {});
  if (!executor) throw std::runtime_error(executor.error().text());
  std::vector<Wanted> all;
  for (int i = 3; i < argc; ++i) all.push_back(wanted(argv[i]));
  if (all.empty()) all.emplace_back();
  for (const Wanted& w : all)
    w.tokens > 0 ? trace_batch(**executor, w.tokens, w.depth) : trace_tokens(**executor, w.depth);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_gpu_kernels: {}\n", e.what());
    return 1;
  }
}
