#include "report/activity.hpp"

#include <array>

namespace rigcast {

std::string_view name(Phase phase) {
  static constexpr std::array<std::string_view, 4> kNames = {"load", "tokenize", "prefill",
                                                             "decode"};
  return kNames[std::size_t(phase)];
}

std::string_view name(ActivityKind kind) {
  static constexpr std::array<std::string_view, kActivityKindCount> kNames = {
      "read file",       "stage",   "upload",  "tokenize",  "embedding",     "attention",
      "cache attention", "ffn",     "experts", "head",      "fetch weights", "fetch kv",
      "store kv",        "handoff", "sample",  "host work", "swap in"};
  return kNames[std::size_t(kind)];
}

std::string_view name(Resource resource) {
  static constexpr std::array<std::string_view, kResourceCount> kNames = {
      "SSD read",       "RAM bandwidth", "CPU compute",     "PCI-E to GPU",     "PCI-E from GPU",
      "VRAM bandwidth", "GPU compute",   "kernel launches", "CPU-GPU handoffs", "host work"};
  return kNames[std::size_t(resource)];
}

std::string_view json_key(Resource resource) {
  static constexpr std::array<std::string_view, kResourceCount> kNames = {
      "ssd", "ram", "cpu", "pcie_h2d", "pcie_d2h", "vram", "gpu", "launch", "handoff", "host"};
  return kNames[std::size_t(resource)];
}

}  // namespace rigcast
