#include "core/catalogue/catalogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "core/catalogue/file_cache.hpp"
#include "core/files/input_file.hpp"
#include "core/runtime/load_profile.hpp"
#include "core/text/nearest_name.hpp"

namespace rigcast {
namespace fs = std::filesystem;
namespace {

// Reads one part file with `read`, which leaves its errors in the document.
template <class Read>
auto load(const fs::path& file, Read read)
    -> Result<decltype(read(std::declval<const TomlTable&>(), std::string{}))> {
  auto document = TomlDocument::read(file);
  if (!document) return document.error();
  auto part = read(document->root(), file.stem().string());
  if (auto error = document->error()) return *error;
  return part;
}

template <class Read>
auto part_reader(Read read) {
  return [read](const fs::path& file) { return load(file, read); };
}

// Rates of a PCI-E generation, from its file.
struct LaneRates {
  Sourced<BytesPerSecond> lane;
  Sourced<double> pinned_share, pageable_share;
  Sourced<Seconds> latency;
};

LaneRates read_lane_rates(const TomlTable& t, const std::string&) {
  const std::string source = t.text("source");
  t.text("name");
  t.text_or("vendor", "");
  t.texts("aliases");
  t.set_figure_defaults({SourceKind::kSpec, source});
  LaneRates rates;
  rates.lane = t.figure<BytesPerSecond>("lane", 1_MBps, BytesPerSecond{1e12});
  rates.pinned_share = t.number_figure("pinned_share", 0.01, 1.0);
  rates.pageable_share = t.number_figure("pageable_share", 0.01, 1.0);
  rates.latency = t.figure<Seconds>("latency", Seconds{0}, Seconds{1});
  t.finish();
  return rates;
}

// A machine with two of the CPU, one in each socket.
CpuPart in_two_sockets(CpuPart cpu) {
  cpu.id = "2x-" + cpu.id;
  cpu.name = "2x " + cpu.name;
  cpu.source += ", two sockets";
  for (std::string& alias : cpu.aliases) alias = "2x " + alias;
  for (int* count : {&cpu.cores, &cpu.efficiency_cores, &cpu.threads, &cpu.sockets, &cpu.numa_nodes,
                     &cpu.memory_channels})
    *count *= 2;
  for (auto* rate : {&cpu.memory_bandwidth, &cpu.core_links})
    if (*rate) (*rate)->value = (*rate)->value * 2.0;
  if (cpu.tdp) cpu.tdp->value = cpu.tdp->value * 2.0;
  if (cpu.price) cpu.price->value = cpu.price->value * 2.0;
  return cpu;
}

// "2xddr4-2666": channels of 64 bits at so many million transfers a second.
std::optional<RamKit> kit_by_formula(std::string_view id) {
  const auto x = id.find("xddr");
  const auto dash = id.rfind('-');
  if (x == std::string_view::npos || dash == std::string_view::npos || dash < x) return {};
  int channels = 0;
  int mega_transfers = 0;
  const auto whole = [](std::string_view digits, int& value) {
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return code == std::errc{} && end == digits.data() + digits.size();
  };
  if (!whole(id.substr(0, x), channels) || !whole(id.substr(dash + 1), mega_transfers)) return {};
  if (channels < 1 || channels > 64 || mega_transfers < 100 || mega_transfers > 20'000) return {};
  RamKit kit;
  kit.id = kit.name = id;
  kit.source = "JEDEC: 8 bytes per transfer and channel";
  kit.bandwidth = {BytesPerSecond{channels * 8.0 * mega_transfers * 1e6}, SourceKind::kSpec,
                   kit.source};
  kit.capacity = {32_GiB, SourceKind::kAssumed, "a usual size"};
  return kit;
}

}  // namespace

struct Catalogue::CachedEntry {
  FileCache<GpuPart> gpus;
  FileCache<CpuPart> cpus;
  FileCache<SsdPart> ssds;
  FileCache<RamKit> kits;
  FileCache<LaneRates> links;
  FileCache<ModelSpec> models;
  FileCache<RuntimeProfile> runtimes;
};

Catalogue::Catalogue(fs::path root)
    : root_(std::move(root)),
      called_(std::make_shared<NamesByFolder>()),
      cache_(std::make_shared<CachedEntry>()) {}

fs::path measured_file(const fs::path& rig_file) {
  return fs::path(rig_file).replace_extension(".measured.toml");
}

bool is_measured_file(const fs::path& file) {
  return file.filename().string().ends_with(".measured.toml");
}

Result<Catalogue> Catalogue::open(const fs::path& program) {
  std::vector<fs::path> places;
  if (const char* given = std::getenv("RIGCAST_DATA")) {
    places.emplace_back(given);
  } else {
    places.push_back(program.parent_path() / "../share/rigcast");
    places.emplace_back(RIGCAST_DATA_DIR);
  }
  std::error_code ignored;
  for (const fs::path& place : places)
    if (fs::is_directory(place / "hwprofiles", ignored)) return Catalogue(place);
  return Error{ErrorKind::kMachine, fmt::format("no catalogue at {}", places.front().string()),
               "set RIGCAST_DATA to the folder that holds hwprofiles/, models/ and runtimes/"};
}

std::vector<std::string> Catalogue::ids(std::string_view folder) const {
  std::vector<std::string> out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(root_ / folder, code))
    if (entry.path().extension() == ".toml" && !is_measured_file(entry.path()))
      out.push_back(entry.path().stem().string());
  std::ranges::sort(out);
  return out;
}

const Catalogue::Names& Catalogue::names(std::string_view folder) const {
  const auto [it, fresh] = called_->try_emplace(std::string(folder));
  Names& names = it->second;
  if (!fresh) return names;
  for (const std::string& id : ids(folder)) {
    const fs::path file = root_ / folder / (id + ".toml");
    names.emplace(as_id(id), file);
    const auto document = TomlDocument::read(file);
    if (!document) continue;
    const TomlTable root = document->root();
    names.emplace(as_id(root.text_or("name", "")), file);
    for (const std::string& alias : root.texts("aliases")) names.emplace(as_id(alias), file);
  }
  names.erase("");
  return names;
}

Result<fs::path> Catalogue::find(std::string_view folder, std::string_view noun,
                                 std::string_view plural, std::string_view name) const {
  const std::string wanted = as_id(name);
  std::error_code ignored;
  const fs::path direct = root_ / folder / (wanted + ".toml");
  if (!wanted.empty() && fs::is_regular_file(direct, ignored)) return direct;
  const Names& called = names(folder);
  if (const auto it = called.find(wanted); it != called.end()) return it->second;
  const auto known = ids(folder);
  std::string hint = did_you_mean(name, known);
  if (!hint.empty()) hint += "      ";
  hint += fmt::format("rigcast list {} shows all {}", plural, known.size());
  return bad_input(fmt::format("no {} named \"{}\"", noun, name), std::move(hint));
}

Result<GpuPart> Catalogue::gpu(std::string_view name) const {
  const auto file = find("hwprofiles/gpus", "GPU", "gpus", name);
  if (!file) return file.error();
  return cache_->gpus.get(*file, part_reader(read_gpu));
}

Result<CpuPart> Catalogue::cpu(std::string_view name) const {
  const auto file = find("hwprofiles/cpus", "CPU", "cpus", name);
  if (file) return cache_->cpus.get(*file, part_reader(read_cpu));
  const std::string id = as_id(name);
  if (!id.starts_with("2x")) return file.error();
  auto one = cpu(std::string_view(id).substr(id.starts_with("2x-") ? 3 : 2));
  if (!one || one->sockets > 1) return file.error();
  return in_two_sockets(*std::move(one));
}

Result<SsdPart> Catalogue::ssd(std::string_view name) const {
  const auto file = find("hwprofiles/ssds", "SSD", "ssds", name);
  if (!file) return file.error();
  return cache_->ssds.get(*file, part_reader(read_ssd));
}

Result<RamKit> Catalogue::ram(std::string_view text) const {
  const auto colon = text.find(':');
  const std::string_view id = text.substr(0, colon);
  RamKit kit;
  if (const auto file = find("hwprofiles/ram", "RAM kit", "ram", id)) {
    auto loaded = cache_->kits.get(*file, part_reader(read_ram));
    if (!loaded) return loaded.error();
    kit = *std::move(loaded);
  } else if (auto computed = kit_by_formula(as_id(id))) {
    kit = *std::move(computed);
  } else {
    return bad_input(file.error().message,
                     "write channels, speed and size, for example \"2xddr5-6000:64GiB\"");
  }
  if (colon != std::string_view::npos) {
    const auto capacity = parse_bytes(text.substr(colon + 1));
    if (!capacity) return capacity.error();
    if (*capacity < 16_MiB || *capacity > Bytes{1e15})
      return bad_input(fmt::format("\"{}\" is not a plausible RAM size", text.substr(colon + 1)));
    kit.capacity = {*capacity, SourceKind::kSpec, "size given with the kit"};
  }
  return kit;
}

Result<ModelSpec> Catalogue::model(std::string_view name) const {
  const auto file = find("models", "model", "models", name);
  if (!file) return file.error();
  return cache_->models.get(*file, load_model_spec);
}

Result<ModelFile> Catalogue::model_file(const fs::path& file) const {
  if (!read_model_file_)
    return bad_input("this program reads no model files", "name a model of the catalogue");
  return read_model_file_(file);
}

Result<fs::path> Catalogue::rig_file(std::string_view name) const {
  std::error_code ignored;
  const fs::path given(name);
  const bool is_file = given.extension() == ".toml" && fs::is_regular_file(given, ignored);
  const auto file =
      is_file ? Result<fs::path>(given) : find("hwprofiles/rigs", "rig", "rigs", name);
  if (!file && fs::exists(given, ignored))
    if (auto error = check_regular_file(given)) return *error;
  if (file && is_measured_file(*file))
    return bad_input(fmt::format("{} is the correction of a rig, not a rig", file->string()),
                     "name the rig's own file beside it");
  return file;
}

Result<fs::path> Catalogue::runtime_file(std::string_view name) const {
  std::error_code ignored;
  const fs::path given(name);
  if (given.extension() == ".toml" && fs::is_regular_file(given, ignored)) return given;
  return find("runtimes", "runtime", "runtimes", name);
}

Result<RuntimeProfile> Catalogue::runtime(const fs::path& file) const {
  return cache_->runtimes.get(
      file, [](const fs::path& f) { return load_runtime_profile(f); },
      [](const RuntimeProfile& profile) { return profile.files; });
}

Result<HostLink> Catalogue::host_link(PcieLink pcie) const {
  const fs::path file = root_ / fmt::format("hwprofiles/links/pcie-{}.toml", pcie.generation);
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored))
    return bad_input(fmt::format("no figures for PCI-E generation {}", pcie.generation));
  const auto rates = cache_->links.get(file, part_reader(read_lane_rates));
  if (!rates) return rates.error();
  HostLink link;
  link.pcie = pcie;
  const BytesPerSecond raw = rates->lane.value * pcie.lanes;
  link.h2d = {raw * rates->pinned_share.value, rates->pinned_share.kind,
              rates->pinned_share.source};
  link.d2h = link.h2d;
  link.pageable = {raw * rates->pageable_share.value, rates->pageable_share.kind,
                   rates->pageable_share.source};
  link.latency = rates->latency;
  return link;
}

}  // namespace rigcast
