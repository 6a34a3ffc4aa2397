#include "probe/detect/detect_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "core/hardware/hardware_names.hpp"
#include "probe/gpu_link.hpp"

namespace rigcast::probe {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');) {
    field.erase(0, field.find_first_not_of(' '));
    out.push_back(field);
  }
  return out;
}

// "NVIDIA GeForce RTX 3090, 24576, 4, 16": name, MiB, and what the link of card and slot can be.
std::vector<DetectedGpu> by_nvidia_smi(const System& system) {
  const std::string out = system.output(
      {"nvidia-smi", "--query-gpu=name,memory.total,pcie.link.gen.max,pcie.link.width.max",
       "--format=csv,noheader,nounits"});
  std::vector<DetectedGpu> gpus;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    const auto fields = fields_of(line);
    if (fields.size() != 4) continue;
    gpus.push_back({{fields[0]},
                    Bytes{std::atof(fields[1].c_str()) * 0x1p20},
                    {std::atoi(fields[2].c_str()), std::atoi(fields[3].c_str())}});
  }
  return gpus;
}

// The driver's own list, which has no sizes.
std::vector<DetectedGpu> by_nvidia_driver(const System& system) {
  std::vector<DetectedGpu> gpus;
  std::error_code ignored;
  std::set<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(system.root / "proc/driver/nvidia/gpus", ignored))
    folders.insert(entry.path());
  for (const fs::path& folder : folders) {
    std::ifstream in(folder / "information");
    std::ostringstream text;
    text << in.rdbuf();
    if (const std::string name = value_in(text.str(), "Model"); !name.empty())
      gpus.push_back({{name}, {}, {}});
  }
  return gpus;
}

// Links rest at their lowest speed while nothing is copied: what both ends can do counts.
PcieLink fastest_link(const fs::path& card) {
  const GpuLink link = read_gpu_link(card, "device");
  if (link.slot.generation == 0 || link.slot.lanes == 0) return link.card;
  return {std::min(link.card.generation, link.slot.generation),
          std::min(link.card.lanes, link.slot.lanes)};
}

// "Navi 31 [Radeon RX 7900 XT/7900 XTX]" is the products in brackets.
std::vector<std::string> products_of(const std::string& name) {
  const auto open = name.rfind('['), close = name.rfind(']');
  const bool has_brackets = open != std::string::npos && close != std::string::npos && open < close;
  const std::string products = has_brackets ? name.substr(open + 1, close - open - 1) : name;
  if (products.find('/') == std::string::npos) return {products};
  if (products.find(" / ") == std::string::npos) return gpu_alternatives(products);
  std::vector<std::string> whole;  // "Radeon 8050S Graphics / Radeon 8060S Graphics"
  for (std::size_t begin = 0; begin <= products.size();) {
    const std::size_t end = std::min(products.find(" / ", begin), products.size());
    whole.push_back(products.substr(begin, end - begin));
    begin = end + 3;
  }
  return whole;
}

std::vector<DetectedGpu> by_sysfs(const System& system, bool has_nvidia) {
  std::vector<DetectedGpu> gpus;
  std::set<fs::path> cards;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(system.root / "sys/class/drm", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("card") && name.find('-') == std::string::npos) cards.insert(entry.path());
  }
  for (const fs::path& card : cards) {
    const fs::path device = card / "device";
    const std::string vendor = first_line(device / "vendor");
    const bool is_nvidia = vendor == "0x10de";
    if ((is_nvidia && has_nvidia) || (!is_nvidia && vendor != "0x1002" && vendor != "0x8086"))
      continue;
    const std::string id = first_line(device / "device");
    if (vendor.size() < 3 || id.size() < 3) continue;
    const std::string name = pci_name(system, vendor.substr(2), id.substr(2));
    DetectedGpu gpu{{fmt::format("GPU {}:{}", vendor.substr(2), id.substr(2))}, {}, {}};
    if (!name.empty()) gpu.names = products_of(name);
    gpu.memory = Bytes{std::atof(first_line(device / "mem_info_vram_total").c_str())};
    gpu.link = fastest_link(card);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

std::vector<DetectedGpu> by_system_profiler(const System& system) {
  const std::string out = system.output({"system_profiler", "SPDisplaysDataType"});
  const std::string chip = value_in(out, "Chipset Model");
  if (chip.empty()) return {};
  const std::string cores = value_in(out, "Total Number of Cores");
  return {{{cores.empty() ? chip : fmt::format("{} ({}-core GPU)", chip, cores)}, {}, {}}};
}

}  // namespace

std::string pci_name(const System& system, const std::string& vendor, const std::string& device) {
  for (const char* place : {"usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids"}) {
    std::ifstream in(system.root / place);
    bool is_vendor = false;
    for (std::string line; std::getline(in, line);) {
      if (line.empty() || line[0] == '#') continue;
      if (line[0] != '\t') {
        if (is_vendor) break;
        is_vendor = line.starts_with(vendor + "  ");
      } else if (is_vendor && line.starts_with("\t" + device + "  ")) {
        return line.substr(device.size() + 3);
      }
    }
  }
  return "";
}

std::vector<DetectedGpu> detect_gpus(const System& system) {
  auto gpus = by_nvidia_smi(system);
  if (gpus.empty()) gpus = by_nvidia_driver(system);
  for (DetectedGpu& gpu : by_sysfs(system, !gpus.empty())) gpus.push_back(std::move(gpu));
  if (gpus.empty()) gpus = by_system_profiler(system);
  return gpus;
}

}  // namespace rigcast::probe
