// Where the time of a token goes on a GPU, kernel by kernel, as CUPTI records it inside the graph
// that the engine runs.
//   bench_gpu_kernels MODEL QUANT [DEPTH]...    one table for each depth; 512 without one
// A kernel that starts early waits for the one before it: its time is counted from that one's end
// to its own, so that the times of all kernels, and those without one, are the time of a token.
#include <cupti.h>
#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
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

// Costs of the kernels between the first and the last token's end.
std::map<std::string, Cost> costs(std::vector<KernelRun> runs, int& tokens) {
  std::ranges::sort(runs, {}, &KernelRun::end);
  std::map<std::string, Cost> by_name;
  std::map<std::string, Cost> of_token;
  std::uint64_t before = 0;
  tokens = -1;
  for (const KernelRun& k : runs) {
    if (tokens >= 0) {
      const auto add = [&](const std::string& name, std::uint64_t from, std::uint64_t to) {
        of_token[name].ns += double(to - std::min(from, to));
        ++of_token[name].calls;
      };
      if (k.start > before) add("(no kernel)", before, k.start);
      add(short_name(k.name), std::max(before, k.start), k.end);
    }
    before = std::max(before, k.end);
    if (!ends_token(k)) continue;
    for (const auto& [name, cost] : of_token) {
      by_name[name].ns += cost.ns;
      by_name[name].calls += cost.calls;
    }
    of_token.clear();
    ++tokens;
  }
  return by_name;
}

void print(const std::map<std::string, Cost>& by_name, int tokens) {
  std::vector<std::pair<std::string, Cost>> rows(by_name.begin(), by_name.end());
  std::ranges::sort(rows, [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  double all = 0;
  for (const auto& [name, cost] : rows) all += cost.ns;
  fmt::print("{:>9} {:>7} {:>7} {:>6}  kernel\n", "us/token", "share", "calls", "us");
  for (const auto& [name, cost] : rows)
    fmt::print("{:>9.1f} {:>6.1f} % {:>6.1f} {:>6.2f}  {}\n", cost.ns / tokens / 1e3,
               100 * cost.ns / all, double(cost.calls) / tokens, cost.ns / cost.calls / 1e3, name);
  fmt::print("{:>9.1f} of {} tokens: {:.0f} tok/s\n\n", all / tokens / 1e3, tokens,
             1e9 * tokens / all);
}

void trace(Executor& executor, TokenCount depth) {
  const auto prompt = random_prompt(kPrompt, executor.model().spec.vocabulary, 1);
  for (const bool traced : {false, true}) {  // the first prepares buffers, clocks and graphs
    executor.truncate(0);
    executor.fill(std::max<TokenCount>(0, depth - kPrompt));
    if (traced) check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    Sampler sampler({});
    run_request(executor, prompt, kOutput, sampler);
  }
  check(cuptiActivityFlushAll(1));
  check(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  int tokens = 0;
  const auto by_name = costs(std::exchange(recorded, {}), tokens);
  fmt::print("{} after {} tokens\n", executor.model().spec.name, depth);
  if (tokens < 1) throw std::runtime_error("no tokens were traced");
  print(by_name, tokens);
}

int run(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: bench_gpu_kernels MODEL QUANT [DEPTH]...\n");
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
  std::vector<TokenCount> depths;
  for (int i = 3; i < argc; ++i) depths.push_back(std::atoll(argv[i]));
  if (depths.empty()) depths.push_back(512);
  for (const TokenCount depth : depths) trace(**executor, depth);
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
