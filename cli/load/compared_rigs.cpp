#include "cli/load/compared_rigs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "cli/shared/flag_checks.hpp"

namespace rigcast::cli {
namespace {

using planner::Comparison;

// The id of a GPU, CPU, SSD or rig; a RAM kit with its size is its own.
Result<std::string> part_id(const std::string& name, const Catalogue& catalogue) {
  if (const auto gpu = catalogue.gpu(name)) return gpu->id;
  if (const auto cpu = catalogue.cpu(name)) return cpu->id;
  if (const auto ssd = catalogue.ssd(name)) return ssd->id;
  if (name.find(':') != std::string::npos && catalogue.ram(name)) return name;
  if (const auto rig = catalogue.rig_file(name)) return rig->stem().string();
  return catalogue.gpu(name).error();
}

}  // namespace

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

std::string gpu_list(const std::string& text) {
  std::string out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '+');)
    out += (out.empty() ? "" : ", ") + toml_text(trimmed(part));
  return "[" + out + "]";
}

Result<PriceList> RigFlags::prices_of(const Catalogue& catalogue) const {
  auto list = PriceList::read(catalogue.root() / "hwprofiles/prices.toml");
  if (!list) return list;
  if (!price_file.empty()) {
    const auto own = PriceList::read(price_file);
    if (!own) return own.error();
    list->put_before(*own);
  }
  for (const std::string& text : prices) {
    const std::size_t at = text.find('=');
    char* end = nullptr;
    const double usd = at == std::string::npos ? -1 : std::strtod(text.c_str() + at + 1, &end);
    if (!(usd >= 0 && usd < 1e9) || !end || *end || end == text.c_str() + at + 1)
      return bad_input(fmt::format("--price: \"{}\" is not PART=USD", text),
                       "for example --price rtx-3090=750");
    const auto id = part_id(text.substr(0, at), catalogue);
    if (!id) return bad_input(fmt::format("--price: {}", id.error().message), id.error().hint);
    list->set(*id, usd);
  }
  return list;
}

Result<std::vector<NamedRig>> RigFlags::rigs_of(const TomlDocument& base,
                                                const Catalogue& catalogue) const {
  std::vector<NamedRig> out;
  const auto add = [&](const char* flag, const std::string& name, bool is_rig) {
    NamedRig rig{name, base.clone()};
    auto error = is_rig ? rig.document.set("rig.name", toml_text(name), flag)
                        : rig.document.set("rig.gpu", gpu_list(name), flag);
    out.push_back(std::move(rig));
    return error;
  };
  // What is named twice would tie with itself.
  std::vector<std::string> seen;
  const auto is_new = [&](const char* flag, const std::string& name) {
    const bool known = std::ranges::find(seen, name) != seen.end();
    if (known) fmt::print(stderr, "rigcast: {}: {} is named twice, compared once\n", flag, name);
    seen.push_back(name);
    return !known;
  };
  for (const std::string& rig : rigs)
    if (is_new("--rigs", trimmed(rig)))
      if (auto error = add("--rigs", trimmed(rig), true)) return *error;
  const std::vector<std::string> known = catalogue.ids("hwprofiles/rigs");
  for (const std::string& text : gpus) {
    // A machine that is one part with its GPU stands among them by its name.
    const std::string gpu = trimmed(text);
    if (!is_new("--gpus", gpu)) continue;
    if (auto error = add("--gpus", gpu, std::ranges::find(known, gpu) != known.end()))
      return *error;
  }
  return out;
}

Result<std::vector<NamedRig>> gpus_within(double budget, const TomlDocument& base,
                                          const PriceList& prices, const Catalogue& catalogue) {
  std::vector<NamedRig> out;
  for (const std::string& id : catalogue.ids("hwprofiles/gpus")) {
    const auto part = catalogue.gpu(id);
    if (!part || part->unified || part->released < kOldest) continue;
    const auto usd = price_of_part(*part, prices).usd;
    if (!usd || *usd > budget) continue;
    NamedRig gpu{id, base.clone(), *part};
    if (!gpu.document.set("rig.gpu", gpu_list(id), "compare")) out.push_back(std::move(gpu));
  }
  if (budget <= 0 || out.empty())
    return bad_input(budget <= 0 ? "nothing to compare" : "no GPU is sold for the budget",
                     "--gpus A,B or --rigs A,B; --base RIG, for what one new part would do; or "
                     "--budget USD, for all GPUs within it");
  return out;
}

PartsPrice price_of(const NamedRig& named, const Rig& rig, Comparison::What what,
                    const PriceList& prices) {
  switch (what) {
    case Comparison::What::kRigs: return price_of_rig(rig, named.name, prices);
    case Comparison::What::kGpus: return price_of_gpus(rig, prices);
    case Comparison::What::kUpgrades: break;
  }
  if (named.new_gpu) return price_of_part(*named.new_gpu, prices);
  if (named.new_ssd) return price_of_part(*named.new_ssd, prices);
  if (named.new_ram) return price_of_ram(rig.ram, prices);
  return {};
}

void RigFlags::add_to(CLI::App& verb, const char* group) {
  add_list(verb, "--gpus", gpus, "GPUs in the rig of the other flags: rtx-3090,2xrtx-3090")
      ->type_name("A,B")
      ->group(group)
      ->excludes("--gpu");
  add_list(verb, "--rigs", rigs, "rigs of the catalogue, or rig files")
      ->type_name("A,B")
      ->group(group);
  verb.add_option("--price", prices, "what a part or a machine costs: rtx-3090=750")
      ->type_name("PART=USD")
      ->group(group);
  verb.add_option("--prices", price_file, "price list of your own, as hwprofiles/prices.toml")
      ->check(not_empty())
      ->type_name("FILE.toml")
      ->group(group);
}

}  // namespace rigcast::cli
