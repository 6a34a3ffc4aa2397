#include "core/hardware/rig.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace rigcast {
namespace {

void read_part(const TomlTable& t, std::string id, PartInfo& p) {
  p.id = std::move(id);
  p.name = t.text("name");
  p.vendor = t.text_or("vendor", "");
  p.source = t.text("source");
  p.aliases = t.texts("aliases");
  p.released = t.text_or("released", "");
  t.set_figure_defaults({SourceKind::kSpec, p.source});
  const TomlTable price = t.table("price");
  p.price = price.find_figure<Usd>("launch", Usd{0.01}, Usd{1e7});
  p.price_date = price.text_or("date", "");
  price.find_text("source");
  price.finish();
}

std::optional<Sourced<Watts>> read_watts(const TomlTable& t, std::string_view key) {
  return t.find_figure<Watts>(key, Watts{0.1}, Watts{1e5});
}

constexpr FlopsPerSecond kSlowestCompute{1e6};
constexpr FlopsPerSecond kFastestCompute{1e17};

}  // namespace

Rig::Rig() = default;
Rig::Rig(const Rig&) = default;
Rig::Rig(Rig&&) noexcept = default;
Rig& Rig::operator=(const Rig&) = default;
Rig& Rig::operator=(Rig&&) noexcept = default;
Rig::~Rig() = default;

CpuPart::CpuPart() = default;
CpuPart::CpuPart(const CpuPart&) = default;
CpuPart::CpuPart(CpuPart&&) noexcept = default;
CpuPart& CpuPart::operator=(const CpuPart&) = default;
CpuPart& CpuPart::operator=(CpuPart&&) noexcept = default;
CpuPart::~CpuPart() = default;

GpuPart::GpuPart() = default;
GpuPart::GpuPart(const GpuPart&) = default;
GpuPart::GpuPart(GpuPart&&) noexcept = default;
GpuPart& GpuPart::operator=(const GpuPart&) = default;
GpuPart& GpuPart::operator=(GpuPart&&) noexcept = default;
GpuPart::~GpuPart() = default;

Result<PcieLink> parse_pcie(std::string_view text) {
  const auto refuse = [&] {
    return bad_input(fmt::format("expected a PCI-E link, got \"{}\"", text),
                     "write generation and lanes, for example \"4x16\"");
  };
  PcieLink link;
  const char* end = text.data() + text.size();
  auto [after_generation, e1] = std::from_chars(text.data(), end, link.generation);
  if (e1 != std::errc{} || after_generation == end || *after_generation != 'x') return refuse();
  auto [after_lanes, e2] = std::from_chars(after_generation + 1, end, link.lanes);
  if (e2 != std::errc{} || after_lanes != end) return refuse();
  const bool lanes_ok =
      link.lanes == 1 || link.lanes == 2 || link.lanes == 4 || link.lanes == 8 || link.lanes == 16;
  if (link.generation < 1 || link.generation > 6 || !lanes_ok) return refuse();
  return link;
}

std::string text(PcieLink link) { return fmt::format("{}x{}", link.generation, link.lanes); }

std::string_view name(OperatingSystem os) {
  switch (os) {
    case OperatingSystem::kLinux: return "linux";
    case OperatingSystem::kWindows: return "windows";
    case OperatingSystem::kWsl2: return "wsl2";
    case OperatingSystem::kMacos: return "macos";
  }
  return "";
}

Bytes Rig::usable_vram(std::size_t gpu) const {
  const GpuPart& part = gpus.at(gpu);
  const Bytes pool = part.unified ? ram.capacity.value * part.gpu_share.value : part.memory.value;
  return std::max(Bytes{0}, pool - vram_reserved.value);
}

const Correction* Rig::correction(const std::string& runtime) const {
  const auto own = corrections.find(runtime);
  return own == corrections.end() ? nullptr : &own->second;
}

// Cards whose memory has no chips for its check bits keep them in the same: one byte of sixteen.
constexpr double kLeftByEcc = 15.0 / 16.0;

GpuPart read_gpu(const TomlTable& t, std::string id) {
  GpuPart g;
  read_part(t, std::move(id), g);
  g.architecture = t.text("architecture");
  g.form = t.choice("form", t.has("unified") ? FormFactor::kIntegrated : FormFactor::kCard,
                    {{"card", FormFactor::kCard},
                     {"module", FormFactor::kModule},
                     {"laptop", FormFactor::kLaptop},
                     {"integrated", FormFactor::kIntegrated}});

  const TomlTable memory = t.table("memory");
  g.memory = memory.figure<Bytes>("capacity", 16_MiB, Bytes{1e15});
  g.bandwidth = memory.figure<BytesPerSecond>("bandwidth", 100_MBps, BytesPerSecond{1e15});
  g.l2 = memory.find_figure<Bytes>("l2", 64_KiB, 1_GiB);
  if (memory.flag("inline_ecc", false)) {
    g.memory.value = g.memory.value * kLeftByEcc;
    g.bandwidth.value = g.bandwidth.value * kLeftByEcc;
  }
  memory.finish();

  const TomlTable compute = t.table("compute");
  const auto rate = [&](std::string_view key) {
    return compute.find_figure<FlopsPerSecond>(key, kSlowestCompute, kFastestCompute);
  };
  g.fp16_tensor = rate("fp16_tensor");
  g.fp16_tensor_fp16acc = rate("fp16_tensor_fp16acc");
  g.int8_tensor = rate("int8_tensor");
  g.fp32 = rate("fp32");
  if (const auto units = compute.find_number_figure("units", 1, 100'000))
    g.units = int(units->value);
  compute.finish();

  const TomlTable link = t.table("link");
  if (const auto pcie = link.find_text_figure("pcie")) {
    const auto parsed = parse_pcie(pcie->value);
    if (parsed) {
      g.pcie = *parsed;
    } else {
      link.refuse("pcie", parsed.error().message, parsed.error().hint);
    }
  }
  g.p2p = link.flag("p2p", true);
  link.finish();

  const TomlTable power = t.table("power");
  g.board_power = read_watts(power, "board");
  power.finish();

  if (t.has("unified")) {
    const TomlTable unified = t.table("unified");
    g.unified = true;
    g.unified_cpu = unified.text("cpu");
    g.gpu_share = unified.number_figure("gpu_share", 0.01, 1.0);
    unified.finish();
  }
  t.finish();
  return g;
}

CpuPart read_cpu(const TomlTable& t, std::string id) {
  CpuPart c;
  read_part(t, std::move(id), c);
  c.architecture = t.text("architecture");
  const TomlTable compute = t.table("compute");
  c.cores = int(compute.integer("cores", 1, 100'000));
  c.efficiency_cores = int(compute.integer_or("efficiency_cores", 0, 0, 100'000));
  c.threads = int(compute.integer_or("threads", c.cores + c.efficiency_cores, 1, 100'000));
  c.sockets = int(compute.integer_or("sockets", 1, 1, 64));
  c.clock = compute.find_figure<Hertz>("clock", Hertz{1e7}, Hertz{2e10});
  c.base_clock = compute.find_figure<Hertz>("base_clock", Hertz{1e8}, Hertz{1e10});
  c.boost_clock = compute.find_figure<Hertz>("boost_clock", Hertz{1e8}, Hertz{1e10});
  if (c.base_clock && c.boost_clock && c.boost_clock->value < c.base_clock->value)
    compute.refuse("boost_clock", "boost_clock is below base_clock");
  c.simd = compute.text("simd");
  compute.finish();
  const TomlTable memory = t.table("memory");
  c.memory_channels = int(memory.integer_or("channels", 0, 0, 1024));
  c.memory_type = memory.text_or("type", "");
  c.memory_bandwidth =
      memory.find_figure<BytesPerSecond>("bandwidth", 100_MBps, BytesPerSecond{1e14});
  c.core_links = memory.find_figure<BytesPerSecond>("core_links", 1_GBps, BytesPerSecond{1e14});
  c.numa_nodes = int(memory.integer_or("numa_nodes", 1, 1, 1024));
  c.node_read = memory.find_figure<BytesPerSecond>("node_read", 1_GBps, BytesPerSecond{1e14});
  c.remote_read = memory.find_figure<BytesPerSecond>("remote_read", 100_MBps, BytesPerSecond{1e14});
  memory.finish();
  const TomlTable power = t.table("power");
  c.tdp = read_watts(power, "tdp");
  power.finish();
  t.finish();
  return c;
}

RamKit read_ram(const TomlTable& t, std::string id) {
  RamKit r;
  read_part(t, std::move(id), r);
  t.text_or("type", "");
  t.integer_or("channels", 1, 1, 1024);
  t.find_figure<Hertz>("transfer_rate", Hertz{1e6}, Hertz{1e12});
  r.bandwidth = t.figure<BytesPerSecond>("bandwidth", 100_MBps, BytesPerSecond{1e14});
  r.capacity = t.figure<Bytes>("capacity", 16_MiB, Bytes{1e15});
  t.finish();
  return r;
}

SsdPart read_ssd(const TomlTable& t, std::string id) {
  SsdPart s;
  read_part(t, std::move(id), s);
  s.interface = t.text("interface");
  const TomlTable read = t.table("read");
  s.sequential_read =
      read.figure<BytesPerSecond>("sequential", BytesPerSecond{1e5}, BytesPerSecond{1e13});
  read.find_number_figure("random_iops", 1, 1e9);
  read.finish();
  t.find_figure<Bytes>("capacity", 1_MiB, Bytes{1e18});
  t.finish();
  return s;
}

}  // namespace rigcast
