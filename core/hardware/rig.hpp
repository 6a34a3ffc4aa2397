#pragma once
// A rig is one machine: GPUs, CPU, RAM, SSD and the links between them, composed from parts in
// hwprofiles/ or measured. Schema of the files: hwprofiles/README.md.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/sourced.hpp"
#include "core/base/units.hpp"
#include "core/hardware/shared_layers.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

struct PartInfo {
  std::string id;
  std::string name;
  std::string vendor;
  std::string source;
  std::vector<std::string> aliases;
  std::string released;               // "YYYY-MM"
  std::optional<Sourced<Usd>> price;  // at launch
  std::string price_date;             // "YYYY-MM"
};

/// A PCI-E connection: generation and lanes. 0 generations: none.
struct PcieLink {
  int generation = 0;
  int lanes = 0;
};
/// "4x16"; errors name the form.
Result<PcieLink> parse_pcie(std::string_view text);
std::string text(PcieLink link);

/// How a GPU comes: for a slot, for a board of its maker, soldered in a laptop, in the CPU's chip.
enum class FormFactor { kCard, kModule, kLaptop, kIntegrated };

struct GpuPart : PartInfo {
  // Compiled once: inline, they were half of the code of sources that hold one.
  GpuPart();
  GpuPart(const GpuPart&);
  GpuPart(GpuPart&&) noexcept;
  GpuPart& operator=(const GpuPart&);
  GpuPart& operator=(GpuPart&&) noexcept;
  ~GpuPart();

  std::string architecture;
  FormFactor form = FormFactor::kCard;
  Sourced<Bytes> memory;
  Sourced<BytesPerSecond> bandwidth;
  std::optional<Sourced<Bytes>> l2;                    // the cache between memory and all units
  std::optional<Sourced<FlopsPerSecond>> fp16_tensor;  // dense, FP32 accumulation
  std::optional<Sourced<FlopsPerSecond>> fp16_tensor_fp16acc;
  std::optional<Sourced<FlopsPerSecond>> int8_tensor;
  std::optional<Sourced<FlopsPerSecond>> fp32;
  std::optional<int> units;
  PcieLink pcie;
  bool p2p = true;  // over PCI-E, where driver and board allow it
  std::optional<Sourced<Watts>> board_power;
  bool unified = false;     // shares the machine's memory with the CPU
  std::string unified_cpu;  // id of the CPU in the same chip
  Sourced<double> gpu_share{1.0, SourceKind::kSpec, "own memory"};  // of `memory` the GPU may use
  // What is left of its speed under the power limit that the rig states.
  Sourced<double> speed_share{1.0, SourceKind::kSpec, "the board's own power limit"};
  std::optional<SharedLayers>
      shared;  // figures are those of several GPUs: core/hardware/merge_gpus
};

/// The level of CPUs that multiply tiles of bytes, beside vectors.
inline constexpr std::string_view kAmx = "amx";

struct CpuPart : PartInfo {
  CpuPart();
  CpuPart(const CpuPart&);
  CpuPart(CpuPart&&) noexcept;
  CpuPart& operator=(const CpuPart&);
  CpuPart& operator=(CpuPart&&) noexcept;
  ~CpuPart();

  std::string architecture;
  int cores = 0;  // performance cores, whole machine
  int efficiency_cores = 0;
  int threads = 0;
  int sockets = 1;
  int numa_nodes = 1;
  std::optional<Sourced<Hertz>> clock;                    // sustained on all cores
  std::optional<Sourced<Hertz>> base_clock, boost_clock;  // performance cores, data sheet
  std::string simd;
  bool amx = false;  // it multiplies tiles of bytes, beside the vectors of `simd`
  std::optional<Sourced<Watts>> tdp;
  int memory_channels = 0;
  std::string memory_type;
  std::optional<Sourced<BytesPerSecond>> memory_bandwidth;  // fastest officially supported
  // From memory to the cores, where that is less:
  std::optional<Sourced<BytesPerSecond>> core_links;
  // What the cores of one memory node read of its memory, and what those of the others together
  // read of it, as a test program reached it: the rate of the links in one direction.
  std::optional<Sourced<BytesPerSecond>> node_read, remote_read;
  // Measured by a probe: of all cores together, a multiply-add counted as two, and of one core.
  std::optional<Sourced<FlopsPerSecond>> int8_rate, fp32_rate;
  std::optional<Sourced<FlopsPerSecond>> core_int8;  // at the clock that all have together
  std::optional<Sourced<BytesPerSecond>> core_read;  // of memory
  std::optional<Sourced<Bytes>> last_level;          // the cache that all cores share

  /// Memory nodes between which reads are slower than within: those whose rates are stated, else
  /// the sockets. Nodes of one socket read each other's memory as fast as their own.
  int nodes() const { return std::max(1, remote_read ? numa_nodes : sockets); }
};

struct RamKit : PartInfo {
  Sourced<Bytes> capacity;
  Sourced<BytesPerSecond> bandwidth;
};

struct SsdPart : PartInfo {
  std::string interface;
  Sourced<BytesPerSecond> sequential_read;
  std::optional<Sourced<BytesPerSecond>> mapped_read;  // pages of a mapping, past the cache
  std::optional<Sourced<BytesPerSecond>> cached_read;  // a file's pages that memory holds
  std::optional<Sourced<BytesPerSecond>> cached_map;   // of such pages into a mapping
  std::optional<Sourced<Bytes>> readahead;             // of the system, for files on this disk
  std::optional<Sourced<Seconds>> page_read;           // of one page, with nothing else in flight
};

/// Rates of a copy between the host and one GPU.
struct HostLink {
  PcieLink pcie;
  Sourced<BytesPerSecond> h2d;  // from pinned memory
  Sourced<BytesPerSecond> d2h;
  Sourced<BytesPerSecond> pageable;  // from pageable memory, either way
  Sourced<Seconds> latency;          // of one copy
};

enum class OperatingSystem { kLinux, kWindows, kWsl2, kMacos };
std::string_view name(OperatingSystem os);

/// The measured speed of a rig with one runtime: measured over forecast without a correction.
struct Correction {
  static constexpr double kMinFactor = 0.02, kMaxFactor = 50;  // past these: another machine

  struct Speed {
    Sourced<double> factor;            // 1: as forecast
    double spread = 0;                 // log: half-width of the 80 % interval that is left
    std::vector<std::string> regimes;  // of the runs: the spread holds only there; empty: in all
  };
  std::optional<Speed> decode, prefill;  // nullopt: no runs
  std::optional<Speed> host_decode;      // of the CPU beside GPUs; nullopt: as `decode`
  int runs = 0;
};

struct Rig {
  Rig();
  Rig(const Rig&);
  Rig(Rig&&) noexcept;
  Rig& operator=(const Rig&);
  Rig& operator=(Rig&&) noexcept;
  ~Rig();

  std::string name;
  std::vector<GpuPart> gpus;
  CpuPart cpu;
  RamKit ram;
  SsdPart ssd;
  std::vector<HostLink> links;  // one per GPU; a unified GPU's is unused
  std::string interconnect;     // of GPUs among each other: a file of hwprofiles/interconnects
  // What this rig states of it: the time of a small all-reduce, and the bus rate of a large one.
  std::optional<Sourced<Seconds>> all_reduce_latency;
  std::optional<Sourced<BytesPerSecond>> all_reduce_rate;
  /// From each GPU to the next where they are stages of a pipeline; nullopt: they are not.
  std::optional<GpuExchange> between_stages;
  int engines = 1;  // alike, of one server: GPUs and links here are those of one
  OperatingSystem os = OperatingSystem::kLinux;
  Sourced<Bytes> vram_reserved;                   // on each GPU: desktop, other programs
  Sourced<Bytes> gpu_context;                     // on each GPU: what creating a context takes
  std::optional<Sourced<Seconds>> gpu_start;      // until the first GPU has one; absent: not probed
  Sourced<Bytes> ram_reserved;                    // operating system and other programs
  std::map<std::string, Correction> corrections;  // by runtime id
  std::vector<std::string> notes;                 // what its file tells those who use it

  bool unified() const { return !gpus.empty() && gpus.front().unified; }
  /// Memory that programs may allocate on the GPU: its share of the memory minus what is reserved.
  Bytes usable_vram(std::size_t gpu) const;
  /// The correction of a runtime's speed, from the rig's own runs; nullptr: none.
  const Correction* correction(const std::string& runtime) const;
};

GpuPart read_gpu(const TomlTable& t, std::string id);
CpuPart read_cpu(const TomlTable& t, std::string id);
RamKit read_ram(const TomlTable& t, std::string id);
SsdPart read_ssd(const TomlTable& t, std::string id);

}  // namespace rigcast
