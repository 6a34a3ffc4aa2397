#include "core/catalogue/price_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/text/toml_reader.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast {
namespace {

bool is_month(std::string_view date) {
  const auto digits = [](std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  };
  return date.size() == 7 && date[4] == '-' && digits(date.substr(0, 4)) && digits(date.substr(5));
}

Price read_row(const TomlTable& t) {
  Price p;
  p.part = t.text("part");
  p.usd = t.number_or("usd", -1, 0, 1e9);
  t.require("usd");
  p.kind = t.choice(
      "kind", PriceKind::kStreet,
      {{"street", PriceKind::kStreet}, {"used", PriceKind::kUsed}, {"launch", PriceKind::kLaunch}});
  p.date = t.text_or("date", "");
  if (!p.date.empty() && !is_month(p.date))
    t.refuse("date", fmt::format("\"{}\" is no month", p.date), "for example \"2026-11\"");
  p.source = t.text_or("source", "");
  t.finish();
  return p;
}

std::optional<Price> of_part(const PartInfo& part, const PriceList& list) {
  if (auto found = list.find(part.id)) return found;
  if (!part.price) return std::nullopt;
  return Price{part.id, part.price->value.value, PriceKind::kLaunch, part.price_date, part.source};
}

// "2xddr5-6000:64GiB", else by the GiB of that type.
std::optional<Price> of_ram(const RamKit& kit, const PriceList& list) {
  const double gib = kit.capacity.value / 1_GiB;
  if (auto found = list.find(fmt::format("{}:{:.0f}GiB", kit.id, gib))) return found;
  const auto type = kit.id.find("ddr");
  if (type == std::string::npos || type + 4 > kit.id.size()) return std::nullopt;
  auto found = list.find(fmt::format("{}:1GiB", kit.id.substr(type, 4)));
  if (!found) return std::nullopt;
  found->usd *= gib;
  found->count = gib;
  return found;
}

}  // namespace

std::string_view name(PriceKind kind) {
  switch (kind) {
    case PriceKind::kStreet: return "street";
    case PriceKind::kUsed: return "used";
    case PriceKind::kLaunch: return "launch";
  }
  return "";
}

Result<PriceList> PriceList::read(const std::filesystem::path& file) {
  const auto document = TomlDocument::read(file);
  if (!document) return document.error();
  PriceList list;
  const TomlTable root = document->root();
  for (const TomlTable& row : root.tables("price")) list.rows_.push_back(read_row(row));
  root.finish();
  if (auto error = document->error()) return *error;
  std::ranges::stable_sort(list.rows_, [](const Price& a, const Price& b) {
    return std::tuple(a.kind, b.date) < std::tuple(b.kind, a.date);
  });
  return list;
}

void PriceList::put_before(const PriceList& own) {
  rows_.insert(rows_.begin(), own.rows_.begin(), own.rows_.end());
}

void PriceList::set(std::string part, double usd) {
  rows_.insert(rows_.begin(), Price{std::move(part), usd, PriceKind::kStreet, "", "--price"});
}

std::optional<Price> PriceList::find(std::string_view id) const {
  const auto row = std::ranges::find(rows_, id, &Price::part);
  return row == rows_.end() ? std::nullopt : std::optional(*row);
}

void PartsPrice::add(const std::optional<Price>& price, std::string_view name, double count) {
  if (!price) {
    if (std::ranges::find(unpriced, name) == unpriced.end()) unpriced.emplace_back(name);
    usd.reset();
    return;
  }
  parts.push_back(*price);
  parts.back().usd *= count;
  parts.back().count *= count;
  if (unpriced.empty()) usd = usd.value_or(0) + parts.back().usd;
}

PartsPrice price_of_part(const PartInfo& part, const PriceList& list) {
  PartsPrice sum;
  sum.add(of_part(part, list), part.name);
  return sum;
}

PartsPrice price_of_ram(const RamKit& kit, const PriceList& list) {
  PartsPrice sum;
  sum.add(of_ram(kit, list), fmt::format("{} of {}", text_gib(kit.capacity.value), kit.id));
  return sum;
}

namespace {

// GPUs that share every layer are one in a rig, whose launch price is that of all.
void add_gpus(const Rig& rig, const PriceList& list, PartsPrice& sum) {
  for (GpuPart gpu : rig.gpus) {
    const int count = gpu.shared ? gpu.shared->gpus : 1;
    if (gpu.price) gpu.price->value = gpu.price->value / double(count);
    for (int i = 0; i < count * rig.engines; ++i) sum.add(of_part(gpu, list), gpu.name);
  }
}

}  // namespace

PartsPrice price_of_gpus(const Rig& rig, const PriceList& list) {
  PartsPrice sum;
  add_gpus(rig, list, sum);
  return sum;
}

PartsPrice price_of_rig(const Rig& rig, std::string_view rig_id, const PriceList& list) {
  PartsPrice sum;
  if (const auto whole = rig_id.empty() ? std::nullopt : list.find(rig_id)) {
    sum.add(whole, rig_id);
    return sum;
  }
  add_gpus(rig, list, sum);
  if (rig.unified()) return sum;  // the chip is the machine
  sum.add(of_part(rig.cpu, list), rig.cpu.name);
  sum.add(of_ram(rig.ram, list),
          fmt::format("{} of {}", text_gib(rig.ram.capacity.value), rig.ram.id));
  auto drive = list.find(rig.ssd.id);
  sum.add(drive ? drive : list.find("nvme:1TB"), rig.ssd.name);
  sum.add(list.find("base"), "case, board and power supply");
  return sum;
}

}  // namespace rigcast
