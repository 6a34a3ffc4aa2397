#include "cli/catalogue/entries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/catalogue/default_parts.hpp"
#include "core/model/kv_bytes.hpp"
#include "core/model/tensor_table.hpp"
#include "core/scenario/load.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string usd(const PartInfo& part) {
  if (!part.price) return "?";
  const double launch = part.price->value.value;
  return part.price_date.empty() ? fmt::format("{:.0f}", launch)
                                 : fmt::format("{:.0f} ({})", launch, part.price_date);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// Bytes and rates are whole numbers of their unit as far as JSON can tell.
Json number(double value) {
  return std::floor(value) == value && std::abs(value) < 0x1p53 ? Json(std::int64_t(value))
                                                                : Json(value);
}

template <class Q>
Json value_or_null(const std::optional<Sourced<Q>>& figure) {
  return figure ? number(figure->value.value) : Json(nullptr);
}

// The facts that all parts have, and the names by which a search finds them.
CatalogueEntry part_entry(const std::string& id, const PartInfo& part,
                          const std::string& architecture, bool is_own) {
  CatalogueEntry entry;
  entry.id = id;
  entry.aliases = part.aliases;
  entry.names = {id, part.name, part.vendor, architecture};
  entry.facts = {{"id", id},
                 {"name", part.name},
                 {"vendor", text_or_null(part.vendor)},
                 {"aliases", part.aliases},
                 {"own", is_own},
                 {"released", text_or_null(part.released)},
                 {"launch_price_usd", value_or_null(part.price)},
                 {"launch_price_date", text_or_null(part.price_date)}};
  return entry;
}

Result<CatalogueEntry> gpu_entry(const Catalogue& c, const std::string& id) {
  const auto g = c.gpu(id);
  if (!g) return g.error();
  CatalogueEntry entry =
      part_entry(id, *g, g->architecture, c.is_own(c.file_of("hwprofiles/gpus", id)));
  entry.cells = {id,
                 text_gib(g->memory.value) + (g->unified ? " unified" : ""),
                 text(g->bandwidth.value),
                 g->fp16_tensor ? text(g->fp16_tensor->value) : "-",
                 g->pcie.generation ? text(g->pcie) : "-",
                 usd(*g)};
  const bool has_link = g->pcie.generation > 0;
  entry.facts.update({{"architecture", g->architecture},
                      {"memory_bytes", number(g->memory.value.value)},
                      {"unified_memory", g->unified},
                      {"bandwidth_bytes_per_s", number(g->bandwidth.value.value)},
                      {"l2_bytes", value_or_null(g->l2)},
                      {"fp16_tensor_flop_per_s", value_or_null(g->fp16_tensor)},
                      {"fp16_tensor_fp16acc_flop_per_s", value_or_null(g->fp16_tensor_fp16acc)},
                      {"int8_tensor_op_per_s", value_or_null(g->int8_tensor)},
                      {"fp32_flop_per_s", value_or_null(g->fp32)},
                      {"units", g->units ? Json(*g->units) : Json(nullptr)},
                      {"pcie_generation", has_link ? Json(g->pcie.generation) : Json(nullptr)},
                      {"pcie_lanes", has_link ? Json(g->pcie.lanes) : Json(nullptr)},
                      {"board_power_w", value_or_null(g->board_power)}});
  return entry;
}

Result<CatalogueEntry> cpu_entry(const Catalogue& c, const std::string& id) {
  const auto p = c.cpu(id);
  if (!p) return p.error();
  CatalogueEntry entry =
      part_entry(id, *p, p->architecture, c.is_own(c.file_of("hwprofiles/cpus", id)));
  const std::string cores = p->efficiency_cores
                                ? fmt::format("{}+{}", p->cores, p->efficiency_cores)
                                : std::to_string(p->cores);
  const std::string channels =
      p->memory_channels ? fmt::format("{}x{}", p->memory_channels, p->memory_type) : "-";
  entry.cells = {id, cores, p->simd, channels,
                 p->memory_bandwidth ? text(p->memory_bandwidth->value) : "-"};
  entry.facts.update({{"architecture", p->architecture},
                      {"cores", p->cores},
                      {"efficiency_cores", p->efficiency_cores},
                      {"threads", p->threads},
                      {"sockets", p->sockets},
                      {"simd", p->simd},
                      {"clock_hz", value_or_null(p->clock)},
                      {"base_clock_hz", value_or_null(p->base_clock)},
                      {"boost_clock_hz", value_or_null(p->boost_clock)},
                      {"memory_channels", p->memory_channels},
                      {"memory_type", text_or_null(p->memory_type)},
                      {"bandwidth_bytes_per_s", value_or_null(p->memory_bandwidth)}});
  return entry;
}

Result<CatalogueEntry> ram_entry(const Catalogue& c, const std::string& id) {
  const auto r = c.ram(id);
  if (!r) return r.error();
  CatalogueEntry entry = part_entry(id, *r, "", c.is_own(c.file_of("hwprofiles/ram", id)));
  entry.cells = {id, text(r->bandwidth.value), text_gib(r->capacity.value)};
  entry.facts.update({{"bandwidth_bytes_per_s", number(r->bandwidth.value.value)},
                      {"capacity_bytes", number(r->capacity.value.value)}});
  return entry;
}

Result<CatalogueEntry> ssd_entry(const Catalogue& c, const std::string& id) {
  const auto s = c.ssd(id);
  if (!s) return s.error();
  CatalogueEntry entry =
      part_entry(id, *s, s->interface, c.is_own(c.file_of("hwprofiles/ssds", id)));
  entry.cells = {id, s->interface, text(s->sequential_read.value)};
  entry.facts.update({{"interface", s->interface},
                      {"sequential_read_bytes_per_s", number(s->sequential_read.value.value)}});
  return entry;
}

// Past the windows of a model that has some, a further token takes less.
std::string kv_text(const ModelSpec& m) {
  const double first = kv_bytes_per_token(m, {}), later = kv_bytes_per_token_past_windows(m, {});
  return first == later ? fmt::format("{:.0f} B", first)
                        : fmt::format("{:.0f}, then {:.0f} B", first, later);
}

Result<CatalogueEntry> model_entry(const Catalogue& c, const std::string& id) {
  const auto m = c.model(id);
  if (!m) return m.error();
  const auto mix = QuantMix::from_name("Q4_K_M");
  if (!mix) return mix.error();
  const auto table = make_tensor_table(*m, *mix);
  if (!table) return table.error();
  CatalogueEntry entry;
  entry.id = id;
  entry.aliases = m->aliases;
  entry.names = {id, m->name, m->architecture};
  entry.cells = {id,
                 fmt::format("{:.2f} B", double(table->elements()) / 1e9),
                 text_gb(Bytes{double(table->bytes())}),
                 kv_text(*m),
                 text_count(m->context),
                 m->released};
  entry.facts = {
      {"id", id},
      {"name", m->name},
      {"architecture", m->architecture},
      {"aliases", m->aliases},
      {"own", c.is_own(c.file_of("models", id))},
      {"released", text_or_null(m->released)},
      {"parameters", table->elements()},
      {"q4_k_m_bytes", table->bytes()},
      {"q4_k_m_active_bytes", number(table->active_bytes(*m))},
      {"kv_bytes_per_token", number(kv_bytes_per_token(*m, {}))},
      {"kv_bytes_per_token_past_windows", number(kv_bytes_per_token_past_windows(*m, {}))},
      {"window_tokens", m->window ? Json(m->window->tokens) : Json(nullptr)},
      {"layers", m->layers},
      {"experts", m->moe ? Json(m->moe->experts) : Json(nullptr)},
      {"experts_used", m->moe ? Json(m->moe->experts_used) : Json(nullptr)},
      {"context_tokens", m->context}};
  return entry;
}

Result<CatalogueEntry> rig_entry(const Catalogue& c, const std::string& id) {
  const auto document = TomlDocument::read(c.file_of("hwprofiles/rigs", id));
  if (!document) return document.error();
  const TomlTable r = document->root();
  const auto gpus = r.texts("gpu");
  const std::string first = gpus.empty() ? "-" : gpus.front();
  CatalogueEntry entry;
  entry.id = id;
  entry.aliases = r.texts("aliases");
  entry.names = {id, r.text_or("name", ""), r.text_or("vendor", ""), r.text_or("cpu", "")};
  entry.names.insert(entry.names.end(), gpus.begin(), gpus.end());
  entry.cells = {id,
                 gpus.size() > 1 ? fmt::format("{} and {} more", first, gpus.size() - 1) : first,
                 r.text_or("cpu", "-"), r.text_or("ram", "-")};
  entry.facts = {{"id", id},
                 {"name", text_or_null(r.text_or("name", ""))},
                 {"aliases", entry.aliases},
                 {"own", c.is_own(c.file_of("hwprofiles/rigs", id))},
                 {"gpus", gpus},
                 {"cpu", text_or_null(r.text_or("cpu", ""))},
                 {"ram", text_or_null(r.text_or("ram", ""))}};
  return entry;
}

Result<CatalogueEntry> runtime_entry(const Catalogue& c, const std::string& id) {
  const auto p = c.runtime(c.file_of("runtimes", id));
  if (!p) return p.error();
  CatalogueEntry entry;
  entry.id = id;
  entry.names = {id, p->name};
  const auto document = TomlDocument::read(c.file_of("runtimes", id));
  if (document) entry.aliases = document->root().texts("aliases");
  entry.cells = {id, p->name, p->era, p->kv_policy_names()};
  Json policies = Json::array();
  for (const KvPolicy policy : p->kv_policies) policies.push_back(std::string(name(policy)));
  entry.facts = {{"id", id},
                 {"name", p->name},
                 {"aliases", entry.aliases},
                 {"own", c.is_own(c.file_of("runtimes", id))},
                 {"era", p->era},
                 {"base", text_or_null(p->base)},
                 {"kv_policies", std::move(policies)}};
  return entry;
}

// The facts that loads and their limits have, from the head of their file.
CatalogueEntry load_file_entry(const Catalogue& c, const char* folder, const std::string& id) {
  CatalogueEntry entry;
  entry.id = id;
  entry.names = {id};
  std::string source;
  if (const auto document = TomlDocument::read(c.file_of(folder, id))) {
    const TomlTable t = document->root();
    entry.names.push_back(t.text_or("description", ""));
    source = t.text_or("source", "");
  }
  entry.facts = {{"id", id}, {"own", c.is_own(c.file_of(folder, id))}, {"source", source}};
  return entry;
}

Result<CatalogueEntry> load_entry(const Catalogue& c, const std::string& id) {
  const auto load = preset_load(id, c);
  if (!load) return load.error();
  CatalogueEntry entry = load_file_entry(c, "loads", id);
  const bool is_trace = load->arrival == ArrivalProcess::kTrace;
  const auto mean = [&](double tokens) { return is_trace ? Json() : Json(tokens); };
  const std::string limits = text(load->slo);
  entry.cells = {id, std::string(name(load->arrival)), text(*load), limits.empty() ? "-" : limits};
  entry.facts.update({{"description", text_or_null(entry.names.back())},
                      {"arrival", std::string(name(load->arrival))},
                      {"prompt_tokens_mean", mean(mean_prompt(*load))},
                      {"output_tokens_mean", mean(mean_output(*load))},
                      {"turns", mean(load->turns.value)},
                      {"think_time_s", mean(load->think_time.value.value)},
                      {"slo", text_or_null(limits)}});
  return entry;
}

Result<CatalogueEntry> slo_entry(const Catalogue& c, const std::string& id) {
  const auto slo = named_slo(id, c);
  if (!slo) return slo.error();
  CatalogueEntry entry = load_file_entry(c, "loads/slo", id);
  entry.cells = {id, text(*slo)};
  entry.facts.update({{"slo", text(*slo)}});
  return entry;
}

Result<CatalogueEntry> quant_entry(const Catalogue& c, const std::string& id) {
  CatalogueEntry entry;
  entry.id = id;
  entry.names = {id};
  for (const auto& [mix, nearest] : QuantMix::without_rule()) {
    if (mix != id) continue;
    entry.cells = {id, "-", fmt::format("no rule here; nearest {}", nearest)};
    entry.facts = {{"id", id},
                   {"has_rule", false},
                   {"nearest", std::string(nearest)},
                   {"bits_per_weight", nullptr},
                   {"model", nullptr},
                   {"model_bytes", nullptr}};
    return entry;
  }
  const auto defaults = default_parts(c);
  if (!defaults) return defaults.error();
  const auto model = c.model(defaults->model);
  if (!model) return model.error();
  const auto mix = QuantMix::from_name(id);
  if (!mix) return mix.error();
  const auto table = make_tensor_table(*model, *mix);
  if (!table) return table.error();
  const double bits = 8.0 * double(table->bytes()) / double(table->elements());
  entry.cells = {id, fmt::format("{:.2f}", bits), text_gb(Bytes{double(table->bytes())})};
  entry.facts = {{"id", id},           {"has_rule", true},
                 {"nearest", nullptr}, {"bits_per_weight", bits},
                 {"model", model->id}, {"model_bytes", table->bytes()}};
  return entry;
}

std::vector<std::string> quant_ids(const Catalogue&) {
  std::vector<std::string> ids(QuantMix::names().begin(), QuantMix::names().end());
  for (const std::string& served : QuantMix::served_names()) ids.push_back(served);
  for (const auto& [mix, nearest] : QuantMix::without_rule()) ids.emplace_back(mix);
  return ids;
}

struct Kind {
  std::string_view what;
  std::vector<std::string> columns;
  const char* folder;  // nullptr: quant mixes have no files
  Result<CatalogueEntry> (*entry)(const Catalogue&, const std::string&);
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"rigs", {"id", "gpu", "cpu", "ram"}, "hwprofiles/rigs", rig_entry},
      {"gpus",
       {"id", "memory", "bandwidth", "fp16 matrix", "pci-e", "launch usd"},
       "hwprofiles/gpus",
       gpu_entry},
      {"cpus", {"id", "cores", "simd", "memory", "bandwidth"}, "hwprofiles/cpus", cpu_entry},
      {"ram", {"id", "bandwidth", "usual size"}, "hwprofiles/ram", ram_entry},
      {"ssds", {"id", "interface", "sequential read"}, "hwprofiles/ssds", ssd_entry},
      {"models",
       {"id", "parameters", "Q4_K_M", "KV per token", "context", "released"},
       "models",
       model_entry},
      {"quants", {"id", "bits a weight", "size of a model"}, nullptr, quant_entry},
      {"runtimes", {"id", "name", "era", "kv policies"}, "runtimes", runtime_entry},
      {"loads", {"id", "arrival", "requests", "limits"}, "loads", load_entry},
      {"slos", {"id", "limits"}, "loads/slo", slo_entry},
  };
  return all;
}

Result<const Kind*> find_kind(std::string_view what) {
  for (const Kind& kind : kinds())
    if (kind.what == what) return &kind;
  return bad_input(fmt::format("nothing to list under \"{}\"", what),
                   "rigs, gpus, cpus, ram, ssds, models, quants, runtimes, loads or slos");
}

}  // namespace

std::span<const std::string_view> listings() {
  static constexpr std::array<std::string_view, 10> kNames = {
      "rigs", "gpus", "cpus", "ram", "ssds", "models", "quants", "runtimes", "loads", "slos"};
  return kNames;
}

std::vector<std::string> listed_ids(std::string_view what, const Catalogue& catalogue) {
  std::vector<std::string> out;
  for (const Kind& kind : kinds()) {
    if (what != "all" && kind.what != what) continue;
    auto ids = kind.folder ? catalogue.ids(kind.folder) : quant_ids(catalogue);
    std::ranges::move(ids, std::back_inserter(out));
  }
  return out;
}

Result<CatalogueEntry> catalogue_entry(std::string_view what, const std::string& id,
                                       const Catalogue& catalogue) {
  const auto kind = find_kind(what);
  if (!kind) return kind.error();
  auto entry = (*kind)->entry(catalogue, id);
  if (!entry) return entry;
  for (const std::string& alias : entry->aliases) entry->names.push_back(alias);
  if ((*kind)->folder && catalogue.is_own(catalogue.file_of((*kind)->folder, id)))
    entry->cells.front() += " (own)";
  return entry;
}

Result<Listing> list_catalogue(std::string_view what, const Catalogue& catalogue) {
  const auto kind = find_kind(what);
  if (!kind) return kind.error();
  Listing out{(*kind)->columns, {}};
  if (const auto defaults = default_parts(catalogue); defaults && what == "quants")
    out.columns.back() = defaults->model;  // whose size stands below
  for (const std::string& id : listed_ids(what, catalogue)) {
    auto entry = catalogue_entry(what, id, catalogue);
    if (!entry) return entry.error();
    out.entries.push_back(*std::move(entry));
  }
  return out;
}

bool matches(const CatalogueEntry& entry, std::span<const std::string> words) {
  return std::ranges::all_of(words, [&](const std::string& word) {
    return std::ranges::any_of(entry.names, [&](const std::string& name) {
      return as_id(name).find(as_id(word)) != std::string::npos;
    });
  });
}

}  // namespace rigcast::cli
