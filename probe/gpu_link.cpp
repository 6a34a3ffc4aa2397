#include "probe/gpu_link.hpp"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>

namespace rigcast::probe {
namespace {

namespace fs = std::filesystem;

constexpr double kGigaTransfers[] = {2.5, 5, 8, 16, 32, 64};  // per lane, for generations 1, 2, ...
constexpr int kMaxLanes = 32;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// The link "current" or "max" of a device. Unknown values are reported as 0, 63 or 255 lanes.
PcieLink link_of(const fs::path& device, const std::string& which) {
  const std::string width = first_line(device / (which + "_link_width"));
  int lanes = 0;
  std::from_chars(width.data(), width.data() + width.size(), lanes);
  const int generation = pcie_generation(first_line(device / (which + "_link_speed")));
  if (lanes < 1 || lanes > kMaxLanes || generation == 0) return {};
  return {generation, lanes};
}

}  // namespace

int pcie_generation(std::string_view speed) {
  double rate = 0;
  const auto [end, code] = std::from_chars(speed.data(), speed.data() + speed.size(), rate);
  const std::string_view unit(end, std::size_t(speed.data() + speed.size() - end));
  if (code != std::errc{} || !unit.starts_with(" GT/s")) return 0;
  int generation = 0;
  for (const double known : kGigaTransfers) {
    ++generation;
    if (std::fabs(rate - known) < 0.01) return generation;
  }
  return 0;
}

GpuLink read_gpu_link(const fs::path& devices, std::string bus_id) {
  for (char& c : bus_id) c = char(std::tolower(static_cast<unsigned char>(c)));
  std::error_code missing;
  const fs::path device = fs::canonical(devices / bus_id, missing);
  if (missing) return {};
  GpuLink link;
  link.now = link_of(device, "current");
  link.card = link_of(device, "max");
  link.slot = link_of(device.parent_path(), "max");  // the bridge to which the card is connected
  return link;
}

std::string narrow_link(const GpuLink& link) {
  if (!link.is_narrower()) return "";
  const bool slot_is_the_limit =
      link.slot.generation > 0 &&
      (link.slot.generation < link.card.generation || link.slot.lanes < link.card.lanes);
  return fmt::format(
      "the link runs at PCI-E {}, the card can do {}: {}", text(link.now), text(link.card),
      slot_is_the_limit ? fmt::format("its slot can do {}, another may do more", text(link.slot))
                        : "seat it anew, or look at the slot's settings in the firmware");
}

}  // namespace rigcast::probe
