#include "core/catalogue/catalogue.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>

#include "core/catalogue/file_cache.hpp"
#include "core/files/input_file.hpp"
#include "core/hardware/hardware_names.hpp"
#include "core/runtime/load_profile.hpp"
#include "core/text/freetext.hpp"
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
  std::optional<Sourced<BytesPerSecond>> pageable_limit;  // of the host's copy, whatever the link
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
  rates.pageable_limit =
      t.find_figure<BytesPerSecond>("pageable_limit", 1_MBps, BytesPerSecond{1e12});
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

constexpr const char* kKitExample =
    "write channels, speed (ddr2 to ddr5) and size, for example \"2xddr5-6000:64GiB\"";

// "2xddr4-2666": channels of 64 bits at so many million transfers a second.
std::optional<RamKit> kit_by_formula(std::string_view id) {
  constexpr std::string_view kTypes[] = {"ddr2", "ddr3", "ddr4", "ddr5"};
  const auto x = id.find("xddr");
  const auto dash = id.rfind('-');
  if (x == std::string_view::npos || dash == std::string_view::npos || dash < x) return {};
  const std::string_view type = id.substr(x + 1, dash - x - 1);
  if (std::ranges::find(kTypes, type) == std::end(kTypes)) return {};
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

// A part's file of one's own: "my-gpu.toml".
bool is_part_file(std::string_view name) {
  std::error_code ignored;
  return name.ends_with(".toml") && fs::is_regular_file(fs::path(name), ignored);
}

Error files_are_refused() {
  return bad_input("files are not read here", "name an entry of the catalogue");
}

// What is left of a card's name behind its family's: "", "-16gb", "-24-core-gpu".
bool tells_only_size(std::string_view rest) {
  if (rest.empty()) return true;
  if (!rest.starts_with('-')) return false;
  const auto digits = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
  const std::string_view unit = rest.substr(digits);
  return digits > 1 && (unit == "gb" || unit == "-core-gpu");
}

// The user's own data; empty if there is none beside what ships.
fs::path own_folder(const fs::path& shipped) {
  const char* xdg = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  fs::path own;
  if (xdg && *xdg)
    own = fs::path(xdg) / "rigcast";
  else if (home && *home)
    own = fs::path(home) / ".local/share/rigcast";
  std::error_code ignored;
  const bool is_there = !own.empty() && fs::is_directory(own, ignored);
  return is_there && !fs::equivalent(own, shipped, ignored) ? own : fs::path();
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

Catalogue::Catalogue(fs::path root, fs::path own)
    : root_(std::move(root)),
      own_(std::move(own)),
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
#ifdef RIGCAST_DATA_DIR  // not of a program that is built for packages
    places.emplace_back(RIGCAST_DATA_DIR);
#endif
  }
  std::error_code ignored;
  for (const fs::path& place : places)
    if (fs::is_directory(place / "hwprofiles", ignored)) return Catalogue(place, own_folder(place));
  return Error{ErrorKind::kMachine, fmt::format("no catalogue at {}", places.front().string()),
               "set RIGCAST_DATA to the folder that holds hwprofiles/, models/ and runtimes/"};
}

std::vector<std::string> Catalogue::ids_under(const fs::path& folder) const {
  std::vector<std::string> out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (entry.path().extension() == ".toml" && !is_measured_file(entry.path()))
      out.push_back(entry.path().stem().string());
  return out;
}

std::vector<std::string> Catalogue::ids(std::string_view folder) const {
  std::vector<std::string> out = ids_under(root_ / folder);
  if (!own_.empty()) std::ranges::copy(ids_under(own_ / folder), std::back_inserter(out));
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

fs::path Catalogue::file_of(std::string_view folder, std::string_view id) const {
  const fs::path name = fs::path(folder) / fmt::format("{}.toml", id);
  std::error_code ignored;
  if (!own_.empty() && fs::is_regular_file(own_ / name, ignored)) return own_ / name;
  return root_ / name;
}

bool Catalogue::is_own(const fs::path& file) const {
  const auto [end, rest] = std::ranges::mismatch(own_, file);
  return !own_.empty() && end == own_.end();
}

const Catalogue::Names& Catalogue::names(std::string_view folder) const {
  const auto [it, fresh] = called_->try_emplace(std::string(folder));
  Names& names = it->second;
  if (!fresh) return names;
  std::vector<std::string> own_first = own_.empty() ? ids(folder) : ids_under(own_ / folder);
  if (!own_.empty()) std::ranges::copy(ids(folder), std::back_inserter(own_first));
  for (const std::string& id : own_first) {
    const fs::path file = file_of(folder, id);
    names.emplace(as_id(id), Found{file, ""});
    auto document = TomlDocument::read_top(file);
    if (!document) document = TomlDocument::read(file);  // a text of several lines was cut
    if (!document) continue;
    const TomlTable root = document->root();
    names.emplace(as_id(root.text_or("name", "")), Found{file, ""});
    for (const std::string& alias : root.texts("aliases"))
      names.emplace(as_id(alias), Found{file, alias});
  }
  names.erase("");
  return names;
}

Result<Catalogue::Found> Catalogue::find(std::string_view folder, std::string_view noun,
                                         std::string_view plural, std::string_view name) const {
  const std::string wanted = as_id(name);
  std::error_code ignored;
  const fs::path direct = file_of(folder, wanted);
  if (!wanted.empty() && fs::is_regular_file(direct, ignored)) return Found{direct, ""};
  if (takes_files_ && is_part_file(name)) return Found{fs::path(name), ""};
  const Names& called = names(folder);
  if (const auto it = called.find(wanted); it != called.end()) return it->second;
  const auto known = ids(folder);
  std::string hint = did_you_mean(name, known);
  if (!hint.empty()) hint += "      ";
  hint += fmt::format("rigcast list {} shows all {}", plural, known.size());
  return bad_input(fmt::format("no {} named \"{}\"", noun, name), std::move(hint));
}

std::vector<std::string> Catalogue::gpus_called(std::string_view name) const {
  const std::string text = freetext::clipped(name);
  if (states_gpu_size(text)) return {};
  const Names& called = names("hwprofiles/gpus");
  std::set<std::string> ids;
  for (const std::string& one : gpu_alternatives(text)) {
    std::string family = as_id(one);
    if (family.starts_with("radeon-rx-")) family = family.substr(family.find("rx-"));
    const auto first = called.lower_bound(family);
    for (auto it = first; it != called.end() && it->first.starts_with(family); ++it)
      if (tells_only_size(std::string_view(it->first).substr(family.size())))
        ids.insert(it->second.file.stem().string());
  }
  return {ids.begin(), ids.end()};
}

Result<GpuPart> Catalogue::gpu(std::string_view name) const {
  const auto as_written = find("hwprofiles/gpus", "GPU", "gpus", name);
  if (as_written) return cache_->gpus.get(as_written->file, part_reader(read_gpu));
  for (const std::string& simpler : simpler_gpu_names(freetext::clipped(name)))
    if (const auto found = find("hwprofiles/gpus", "GPU", "gpus", simpler))
      return cache_->gpus.get(found->file, part_reader(read_gpu));
  const std::vector<std::string> several = gpus_called(name);
  if (several.size() < 2) return as_written.error();
  return bad_input(
      fmt::format("\"{}\" is ambiguous, it may be {}", name, fmt::join(several, " or ")),
      "name one of them");
}

Result<CpuPart> Catalogue::cpu_called(std::string_view name) const {
  const auto found = find("hwprofiles/cpus", "CPU", "cpus", name);
  if (found) return cache_->cpus.get(found->file, part_reader(read_cpu));
  const std::string id = as_id(name);
  if (!id.starts_with("2x")) return found.error();
  auto one = cpu_called(std::string_view(id).substr(id.starts_with("2x-") ? 3 : 2));
  if (!one || one->sockets > 1) return found.error();
  return in_two_sockets(*std::move(one));
}

Result<CpuPart> Catalogue::cpu(std::string_view name) const {
  auto as_written = cpu_called(name);
  if (as_written) return as_written;
  for (const std::string& simpler : simpler_cpu_names(freetext::clipped(name)))
    if (auto part = cpu_called(simpler)) return part;
  return as_written;
}

Result<SsdPart> Catalogue::ssd(std::string_view name) const {
  const auto file = find("hwprofiles/ssds", "SSD", "ssds", name);
  if (!file) return file.error();
  return cache_->ssds.get(file->file, part_reader(read_ssd));
}

Result<RamKit> Catalogue::ram(std::string_view text) const {
  const auto colon = text.find(':');
  const std::string_view id = text.substr(0, colon);
  RamKit kit;
  const auto file = find("hwprofiles/ram", "RAM kit", "ram", id);
  if (id.starts_with('-')) {
    return bad_input(fmt::format("\"{}\": a kit has at least one channel", text), kKitExample);
  } else if (file) {
    auto loaded = cache_->kits.get(file->file, part_reader(read_ram));
    if (!loaded) return loaded.error();
    kit = *std::move(loaded);
  } else if (auto computed = kit_by_formula(as_id(id))) {
    kit = *std::move(computed);
  } else {
    return bad_input(file.error().message, kKitExample);
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
  auto spec = cache_->models.get(file->file, load_model_spec);
  if (!spec || file->alias.empty()) return spec;
  spec->name = spec->alias = file->alias;
  return spec;
}

Result<ModelFile> Catalogue::model_file(const fs::path& file) const {
  if (!takes_files_) return files_are_refused();
  if (!read_model_file_)
    return bad_input("this program reads no model files", "name a model of the catalogue");
  return read_model_file_(file);
}

Result<Bytes> Catalogue::projector_file(const fs::path& file) const {
  if (!takes_files_) return files_are_refused();
  if (read_projector_) return read_projector_(file);
  return bad_input("this program reads no model files", "leave out the projector");
}

Result<std::string> Catalogue::this_machine() const {
  if (read_this_machine_) return read_this_machine_(*this);
  return bad_input("nothing tells what this machine is", "name a rig or its parts");
}

Result<fs::path> Catalogue::rig_file(std::string_view name) const {
  const fs::path given(name);
  const bool is_file = takes_files_ && is_part_file(name);
  const auto found =
      is_file ? Result<Found>(Found{given, ""}) : find("hwprofiles/rigs", "rig", "rigs", name);
  std::error_code ignored;
  if (!found && takes_files_ && fs::exists(given, ignored))
    if (auto error = check_regular_file(given)) return *error;
  if (!found) return found.error();
  if (is_measured_file(found->file))
    return bad_input(fmt::format("{} is the correction of a rig, not a rig", found->file.string()),
                     "name the rig's own file beside it");
  return found->file;
}

Result<fs::path> Catalogue::runtime_file(std::string_view name) const {
  const auto found = find("runtimes", "runtime", "runtimes", name);
  if (!found) return found.error();
  return found->file;
}

Result<RuntimeProfile> Catalogue::runtime(const fs::path& file) const {
  return cache_->runtimes.get(
      file, [this](const fs::path& f) { return load_runtime_profile(f, true, root_ / "runtimes"); },
      [](const RuntimeProfile& profile) { return profile.files; });
}

Result<HostLink> Catalogue::host_link(PcieLink pcie) const {
  const fs::path file = file_of("hwprofiles/links", fmt::format("pcie-{}", pcie.generation));
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
  const auto& limit = rates->pageable_limit;
  if (limit && limit->value < link.pageable.value) link.pageable = *limit;
  link.latency = rates->latency;
  return link;
}

}  // namespace rigcast
