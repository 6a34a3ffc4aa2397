#include "measurements/parsed_notes.hpp"

#include <cstdlib>

#include "core/text/freetext.hpp"

namespace rigcast {
namespace {

using freetext::contains;
using freetext::match;

std::string backend_in(const std::string& text) {
  if (contains(text, "vulkan")) return "vulkan";
  if (contains(text, "rocm")) return "rocm";
  if (contains(text, "sycl")) return "sycl";
  if (contains(text, "backend=cuda") || contains(text, "(cuda")) return "cuda";
  if (contains(text, "backend=metal") || contains(text, "(metal)")) return "metal";
  return "";
}

// A build with a CPU BLAS prefills host layers there. On Apple every build has one, and it is not
// asked.
bool has_cpu_blas(const std::string& notes, const std::string& backend) {
  return backend != "metal" && contains(notes, "blas") && !contains(notes, "no blas");
}

// "ts=23.00/23.00", "tensor-split 25,75".
std::vector<double> tensor_split_in(const std::string& notes) {
  const auto found = match(
      notes,
      R"(\b(?:ts=|tensor[-_]split[ =])(\d{1,6}(?:\.\d{1,6})?(?:[,/]\d{1,6}(?:\.\d{1,6})?)+))");
  std::vector<double> shares;
  if (found.empty()) return shares;
  for (const char* at = found[1].c_str(); *at != '\0';) {
    char* end = nullptr;
    shares.push_back(std::strtod(at, &end));
    at = *end == '\0' ? end : end + 1;
  }
  return shares;
}

// The last one said: words about either come before the settings.
bool has_no_mmap(const std::string& notes) {
  const auto found = match(notes, R"(.*\bmmap=([01])\b)");
  return !found.empty() && found[1] == "0";
}

// Weights that are repacked for the CPU's kernels at load are of no use to a GPU.
bool is_repacked(const std::string& notes) { return !match(notes, R"(\brtr\b)").empty(); }

bool some_kv_layers_in_ram(const std::string& notes) {
  const auto found = match(notes, R"(kv-gpu-layers (\d{1,4}) of (\d{1,4}))");
  return !found.empty() && found[1] != "0" && found[1] != found[2];
}

// "split mode graph", "-sm tensor".
std::string split_mode_in(const std::string& notes) {
  const auto mode = match(notes, R"((?:\bsplit[- ]mode |(?:^|\s)-sm )(row|tensor|graph|attn)\b)");
  return mode.empty() ? "" : mode[1];
}

// "P2P", "P2P enabled": not "no P2P".
bool has_peer_to_peer(const std::string& notes) {
  return !match(notes, R"(\bp2p\b)").empty() &&
         match(notes, R"(\b(?:no|without) p2p\b|\bp2p (?:off|disabled)\b)").empty();
}

// Programs with kernels or schedules of their own, as people write them.
std::string other_engine_in(const std::string& tool) {
  const auto engine =
      match(tool, R"(ktransformers|exllama\w*|vllm|sglang|tabbyapi|mlx|mistral\.rs|tensorrt\S*)");
  return engine.empty() ? "" : engine.front();
}

// "ctx 163840", "ctx 200K", "c=44K", "112k context". "fit-params split for ctx 10k" is about
// another program than the one that measured.
TokenCount context_in(const std::string& notes) {
  if (contains(notes, "fit-params")) return 0;
  auto found = match(notes, R"((?:\bctx |\bc=)(\d{1,7})(k?)\b)");
  if (found.empty()) found = match(notes, R"(\b(\d{1,4})(k) (?:context|ctx)\b)");
  if (found.empty()) return 0;
  return std::atoll(found[1].c_str()) * (found[2].empty() ? 1 : 1024);
}

// "experts in RAM, 2 GPUs", "-ot exps=CPU": not "experts mostly in RAM", nor "part of the experts".
bool all_experts_in_ram(const std::string& notes) {
  return !match(notes, R"(\ball experts in ram\b|\bexps=cpu\b)").empty() ||
         !match(notes, R"((?:^|[,;] )experts in ram(?: \(-ot\))?(?:[,;]|$))").empty() ||
         !match(notes, R"(\bhybrid( decode|; prefill streams experts)\b)").empty();
}

// "-ser 4,1": at most four experts for a token.
std::optional<int> experts_used_in(const std::string& notes) {
  const auto found = match(notes, R"((?:-ser |\bser=)([1-9]\d?),)");
  return found.empty() ? std::nullopt : std::optional(std::atoi(found[1].c_str()));
}

}  // namespace

ParsedNotes parse_notes(const Measurement& m) {
  const std::string notes = freetext::lower(m.notes);
  const std::string program = freetext::lower(m.tool) + " " + freetext::lower(m.build);
  ParsedNotes s;
  for (const std::string& text : {notes, freetext::lower(m.gpu), program})
    if (s.backend.empty()) s.backend = backend_in(text);
  s.cpu_blas = has_cpu_blas(notes, s.backend);
  s.no_op_offload = s.cpu_blas || contains(notes, "nopo=1") ||
                    contains(notes, "computed on cpu in prefill") ||
                    contains(notes, "op offload of moe off") || is_repacked(notes);
  s.no_matrix_units = contains(notes, "no matrix cores") || contains(notes, "matrix cores: none") ||
                      contains(notes, "disable_coopmat=1");
  s.cpu_or_gpu = contains(notes, "igpu/cpu");
  s.did_not_fit = contains(notes, "did not fit") || contains(notes, "driver spill");
  s.no_mmap = has_no_mmap(notes);
  s.kv_in_ram = !match(notes, R"(\bnkvo[ =]1\b|--no-kv-offload|kv-gpu-layers 0\b)").empty();
  s.some_kv_in_ram = some_kv_layers_in_ram(notes);
  s.all_experts_in_ram = all_experts_in_ram(notes);
  s.fitted_placement = !match(notes, R"((?:^|[\s(])--fit (?:1|on)\b)").empty();
  s.automatic_split = !match(notes, R"(automatic [\w ()-]*split)").empty();
  s.numa_distribute = contains(notes, "numa distribute");
  s.ollama = contains(program, "ollama") && !contains(program, " or ollama");
  s.ik_llama = contains(program, "ik_llama");
  s.localscore = contains(program, "localscore");
  s.llamafile = s.localscore || contains(program, "llamafile");
  s.experts_used = experts_used_in(notes);
  s.tensor_split = tensor_split_in(notes);
  s.split_mode = split_mode_in(notes);
  s.peer_to_peer = has_peer_to_peer(notes);
  s.other_engine = other_engine_in(freetext::lower(m.tool));
  const auto ends = match(notes, R"(\boutput and embedding (\w+))");
  if (!ends.empty()) s.format_of_ends = ends[1];
  s.context = context_in(notes);
  return s;
}

}  // namespace rigcast
