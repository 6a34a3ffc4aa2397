#include "probe/detect/detected_rig.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "core/catalogue/default_parts.hpp"
#include "core/hardware/hardware_names.hpp"
#include "core/text/freetext.hpp"
#include "core/text/unit_text.hpp"
#include "probe/detect/detect_gpus.hpp"
#include "probe/detect/detect_memory.hpp"
#include "probe/gpu_part.hpp"
#include "probe/host.hpp"
#include "probe/rig_file.hpp"

namespace rigcast::probe {
namespace fs = std::filesystem;
namespace {

struct FoundGpu {
  GpuPart part;
  DetectedGpu detected;
};

// The system's answers, part by part, and what the one line about them will say.
class Detection {
 public:
  Detection(const Catalogue& catalogue, const System& system)
      : catalogue_(catalogue), system_(system), host_(read_host(system.root)) {
    if (host_.cpu.empty() && host_.memory.value <= 0) read_mac();
    if (host_.cpu.empty()) host_.cpu = first_line(system.root / "proc/device-tree/model");
  }

  Result<std::string> rig() {
    if (host_.memory.value <= 0 || host_.cpu.empty())
      return Error{ErrorKind::kMachine,
                   "the system does not tell what this machine is",
                   "name a rig or its parts: --gpu, --cpu, --ram",
                   {}};
    find_gpus();
    file_.text("name", "this machine");
    file_.text("source", "the operating system and its tools, not measured");
    file_.text("os", host_.os);
    write_gpus();
    write_cpu();
    write_ram();
    write_disk();
    write_notes();
    return file_.take();
  }

 private:
  bool is_unified() const { return !gpus_.empty() && gpus_.front().part.unified; }

  // macOS has no /proc: sysctl tells the same.
  void read_mac() {
    const auto ask = [&](const char* key) {
      std::string text = system_.output({"sysctl", "-n", key});
      text.erase(std::min(text.find('\n'), text.size()));
      return text;
    };
    host_.cpu = ask("machdep.cpu.brand_string");
    host_.memory = Bytes{std::atof(ask("hw.memsize").c_str())};
    const int cores = std::atoi(ask("hw.perflevel0.physicalcpu").c_str());
    host_.cores = std::max(1, cores > 0 ? cores : std::atoi(ask("hw.physicalcpu").c_str()));
    host_.simd = host_.cpu.starts_with("Apple") ? "neon-dotprod" : "avx2";
    host_.os = "macos";
  }

  // The catalogue's part: its own memory tells cards of a name apart, or the pool of a chip whose
  // memory is the machine's.
  std::optional<GpuPart> part_of(const DetectedGpu& gpu) {
    std::vector<std::string> ids;
    const auto add = [&](const std::string& id) {
      if (!id.empty() && std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
    };
    for (const std::string& name : gpu.names) {
      if (gpu.memory.value > 0) add(gpu_of_catalogue(name, gpu.memory, catalogue_));
      add(gpu_of_catalogue(name, host_.memory + gpu.memory, catalogue_));
    }
    for (const std::string& name : gpu.names)
      if (const auto part = catalogue_.gpu(name);
          ids.empty() && part && (part->unified || gpu.memory.value <= 0))
        add(part->id);
    if (ids.empty()) return std::nullopt;
    keep_those_of_the_cpu(ids);
    if (ids.size() > 1)
      notes_.push_back(fmt::format("{} may be {}: assumed {} (--gpu)", gpu.names.front(),
                                   fmt::join(ids, ", "), ids.front()));
    return *catalogue_.gpu(ids.front());
  }

  // A chip of the CPU is told by the CPU.
  void keep_those_of_the_cpu(std::vector<std::string>& ids) const {
    const auto cpu = catalogue_.cpu(host_.cpu);
    const auto is_of_it = [&](const std::string& id) {
      return cpu && catalogue_.gpu(id)->unified_cpu == cpu->id;
    };
    if (std::ranges::any_of(ids, is_of_it))
      std::erase_if(ids, [&](const std::string& id) { return !is_of_it(id); });
  }

  void find_gpus() {
    std::vector<std::string> unknown;
    for (const DetectedGpu& gpu : detect_gpus(system_)) {
      if (auto part = part_of(gpu))
        gpus_.push_back({*std::move(part), gpu});
      else
        unknown.push_back(fmt::format("{}", fmt::join(gpu.names, " or ")));
    }
    // A chip with the machine's memory is the only GPU of a rig: cards of their own come first.
    const bool has_card =
        std::ranges::any_of(gpus_, [](const FoundGpu& g) { return !g.part.unified; });
    std::erase_if(gpus_, [&](const FoundGpu& g) { return has_card && g.part.unified; });
    if (!has_card && gpus_.size() > 1) gpus_.resize(1);
    if (gpus_.size() > kMaxGpus) gpus_.resize(kMaxGpus);
    if (!unknown.empty())
      notes_.push_back(fmt::format(
          "{} is left out: the catalogue has no such GPU (--gpu with the nearest of rigcast list "
          "gpus)",
          fmt::join(unknown, ", ")));
  }

  void write_gpus() {
    std::vector<std::string> ids, links;
    for (const FoundGpu& g : gpus_) {
      ids.push_back(g.part.id);
      found_.push_back(g.part.name);
      const PcieLink link = g.detected.link;
      if (link.lanes > 0 && link.generation > 0 && catalogue_.host_link(link).ok())
        links.push_back(text(link));
    }
    file_.texts("gpu", ids);
    if (is_unified() || gpus_.empty()) return;
    if (links.size() == gpus_.size()) {
      file_.texts("pcie", links);
      found_.push_back(fmt::format("PCI-E {}", fmt::join(links, ", ")));
    } else {
      assumed_.push_back("the cards' own PCI-E links");
    }
    if (gpus_.size() == 1 && gpus_.front().detected.memory.value > 0)
      write_size("vram_capacity", gpus_.front().detected.memory, "as the driver tells");
  }

  void write_size(const char* key, Bytes size, const char* source) {
    file_.line(fmt::format("{} = {{ value = \"{:.0f} MiB\", kind = \"spec\", source = \"{}\" }}",
                           key, size.value / 0x1p20, source));
  }

  void write_cpu() {
    found_.insert(found_.begin(), fmt::format("{}, {} {}", host_.cpu, host_.cores,
                                              host_.cores == 1 ? "core" : "cores"));
    if (is_unified()) {
      if (const auto part = catalogue_.cpu(gpus_.front().part.unified_cpu)) cpu_ = *part;
    } else {
      for (const std::string& name : simpler_cpu_names(host_.cpu))
        if (const auto part = catalogue_.cpu(host_.sockets == 2 ? "2x " + name : name)) {
          cpu_ = *part;
          break;
        }
      if (cpu_) file_.text("cpu", cpu_->id);
    }
    if (!cpu_) {
      file_.text("cpu_name", host_.cpu);
      file_.text("cpu_simd", host_.simd);
      if (host_.amx) file_.flag("cpu_amx", true);
      assumed_.push_back("the CPU's clock, which the catalogue lacks");
    }
    // Cores of a part are its performance cores; a virtual machine or a container has fewer.
    if (!cpu_ || host_.cores < cpu_->cores) file_.number("cpu_cores", host_.cores);
    if (!cpu_ && host_.l3.value > 0) write_size("cpu_cache", host_.l3, "as the kernel tells");
    if (cpu_ && host_.cores < cpu_->cores)
      notes_.push_back(
          fmt::format("{} of {} cores can be used: the memory's rate may be shared, too "
                      "(rigcast probe measures it)",
                      host_.cores, cpu_->cores));
  }

  void write_ram() {
    found_.push_back(text_gib(host_.memory) +
                     (host_.contained ? " of memory (the container's limit)" : " of memory"));
    if (is_unified()) {
      const Bytes pool = host_.memory + gpus_.front().detected.memory;
      file_.text("ram", fmt::format("{:.0f} MiB", pool.value / 0x1p20));
      return;
    }
    write_size("ram_capacity", host_.memory, "as the kernel tells");
    const auto modules = modules_of(system_.output({"dmidecode", "-t", "memory"}));
    if (modules) return write_modules(*modules);
    BytesPerSecond rate;
    std::string of;
    if (cpu_ && cpu_->memory_bandwidth) {
      rate = cpu_->memory_bandwidth->value;
      of = fmt::format("{} x {}, the fastest that the CPU officially takes", cpu_->memory_channels,
                       cpu_->memory_type);
    } else if (const auto defaults = default_parts(catalogue_)) {
      const auto kit = catalogue_.ram(defaults->ram);
      if (!kit) return;
      rate = kit->bandwidth.value;
      of = kit->id;
    }
    file_.line(
        fmt::format("ram_bandwidth = {{ value = \"{}\", kind = \"assumed\", source = \"{}\" }}",
                    exact_text(rate), of));
    assumed_.push_back("memory of " + of);
  }

  void write_modules(const MemoryModules& modules) {
    const int most = cpu_ && cpu_->memory_channels > 0 ? cpu_->memory_channels : 2;
    const std::string kit = fmt::format("{}x{}-{}", std::min(modules.count, most), modules.type,
                                        modules.mega_transfers);
    const auto known = catalogue_.ram(kit);
    if (!known) return;
    file_.line(
        fmt::format("ram_bandwidth = {{ value = \"{}\", kind = \"spec\", source = \"{} "
                    "modules, dmidecode\" }}",
                    exact_text(known->bandwidth.value), modules.count));
    found_.push_back(fmt::format("{} modules as {}", modules.count, kit));
  }

  // The disk with the files is not known: the first NVMe, else the first without platters.
  void write_disk() {
    std::error_code ignored;
    std::set<fs::path> solid, turning;
    for (const auto& entry : fs::directory_iterator(system_.root / "sys/block", ignored)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("nvme") && !name.starts_with("sd")) continue;
      const bool turns = first_line(entry.path() / "queue/rotational") == "1";
      (turns ? turning : solid).insert(entry.path());  // "nvme0n1" comes before "sda"
    }
    if (solid.empty() && turning.empty()) return write_other_disk();
    const fs::path disk = solid.empty() ? *turning.begin() : *solid.begin();
    const std::string model = first_line(disk / "device/model");
    if (const std::string id = ssd_of(model); !id.empty()) {
      file_.text("ssd", id);
      found_.push_back(model);
    } else if (!disk.filename().string().starts_with("nvme")) {
      file_.text("ssd", solid.empty() ? "hdd-7200" : "sata-ssd");
      assumed_.push_back(fmt::format(
          "{} for the disk {}", solid.empty() ? "a usual hard disk" : "a usual SATA SSD", model));
    }
  }

  void write_other_disk() {
    if (host_.os != "macos") {
      assumed_.push_back("a usual NVMe SSD");
      return;
    }
    file_.text("ssd", "apple-internal-2021");
    assumed_.push_back("the drive of a Mac of 2021");
  }

  // "Samsung SSD 990 PRO 2TB" is the catalogue's "Samsung 990 PRO".
  std::string ssd_of(const std::string& model) const {
    std::string name = freetext::replaced(model, R"(\bSSD\b|\b\d{1,5}\s*[GT]B\b|\s+$)");
    std::ranges::replace(name, '_', ' ');
    const auto part = catalogue_.ssd(freetext::replaced(name, R"(^\s+|\s+$)", ""));
    return part ? part->id : "";
  }

  void write_notes() {
    std::string line =
        fmt::format("this machine, as the system tells it: {}", fmt::join(found_, "; "));
    if (!assumed_.empty()) line += fmt::format(". Assumed: {}", fmt::join(assumed_, "; "));
    notes_.insert(notes_.begin(), line + ". rigcast probe measures it");
    if (host_.os == "wsl2")
      notes_.push_back("WSL2 has a part of the machine's memory: .wslconfig sets how much");
    file_.texts("notes", notes_);
  }

  static constexpr std::size_t kMaxGpus = 16;  // of a rig

  const Catalogue& catalogue_;
  const System& system_;
  Host host_;
  std::optional<CpuPart> cpu_;  // nullopt: the catalogue lacks it
  std::vector<FoundGpu> gpus_;
  std::vector<std::string> found_, assumed_, notes_;
  RigFile file_{""};
};

}  // namespace

Result<std::string> detected_rig(const Catalogue& catalogue, const System& system) {
  return Detection(catalogue, system).rig();
}

}  // namespace rigcast::probe
