#include "planner/load_plan/way_commands.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "perfmodel/resolve_placement.hpp"
#include "planner/commands.hpp"
#include "planner/server_commands.hpp"

namespace rigcast::planner {
namespace {

bool is_paged(const Scenario& s) { return s.runtime.id == "vllm" || s.runtime.id == "sglang"; }

// vllm/entrypoints/openai/cli_args.py, sglang/srt/server_args.py, llama.cpp's
// tools/server/README.md.
int default_port(const Scenario& s) {
  if (s.runtime.id == "vllm") return 8000;
  return s.runtime.id == "sglang" ? 30000 : 8080;
}

// What lets a program see one GPU of several alike: a variable of CUDA, of HIP, of SYCL's runtime
// (llama.cpp's docs/backend/SYCL.md, "Choose level-zero devices"; numbers are those of sycl-ls), or
// of llama.cpp's Vulkan backend.
std::string sees_gpu(const Scenario& s, int gpu) {
  const Backend backend = s.settings.backend;
  if (backend == Backend::kSycl) return fmt::format("ONEAPI_DEVICE_SELECTOR=level_zero:{}", gpu);
  if (backend == Backend::kVulkan && !is_paged(s))
    return fmt::format("GGML_VK_VISIBLE_DEVICES={}", gpu);
  const bool is_amd = s.rig.gpus.front().vendor == "amd";
  return fmt::format("{}_VISIBLE_DEVICES={}", is_amd ? "HIP" : "CUDA", gpu);
}

}  // namespace

std::vector<std::string> commands_of(const ServedWay& way) {
  const Scenario& s = *way.scenario;
  const Words one = server_command(s, resolve_placement(s));
  if (one.empty()) return {};
  if (way.servers == 1) return {shell_text(one)};
  std::vector<std::string> out;
  for (int i = 0; i < way.servers; ++i) {
    Words words = one;
    words.insert(words.end(), {"--port", fmt::format("{}", default_port(s) + i)});
    out.push_back(sees_gpu(s, i) + " " + shell_text(words));
  }
  return out;
}

std::string text_of(const std::vector<std::string>& commands) {
  return fmt::format("{}", fmt::join(commands, "\n"));
}

}  // namespace rigcast::planner
