#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/shared/output.hpp"
#include "cli/verbs.hpp"
#include "core/catalogue/default_parts.hpp"
#include "core/model/kv_bytes.hpp"
#include "core/model/tensor_table.hpp"
#include "core/runtime/load_profile.hpp"
#include "core/text/csv_quote.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast::cli {
namespace {

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

std::string usd(const PartInfo& part) {
  if (!part.price) return "?";
  const double launch = part.price->value.value;
  return part.price_date.empty() ? fmt::format("{:.0f}", launch)
                                 : fmt::format("{:.0f} ({})", launch, part.price_date);
}

Result<Table> list_gpus(const Catalogue& c) {
  Table t{{"id", "memory", "bandwidth", "fp16 matrix", "pci-e", "launch usd"}, {}};
  for (const std::string& id : c.ids("hwprofiles/gpus")) {
    const auto g = c.gpu(id);
    if (!g) return g.error();
    t.rows.push_back({id, text_gib(g->memory.value) + (g->unified ? " unified" : ""),
                      text(g->bandwidth.value), g->fp16_tensor ? text(g->fp16_tensor->value) : "-",
                      g->pcie.generation ? text(g->pcie) : "-", usd(*g)});
  }
  return t;
}

Result<Table> list_cpus(const Catalogue& c) {
  Table t{{"id", "cores", "simd", "memory", "bandwidth"}, {}};
  for (const std::string& id : c.ids("hwprofiles/cpus")) {
    const auto p = c.cpu(id);
    if (!p) return p.error();
    const std::string cores = p->efficiency_cores
                                  ? fmt::format("{}+{}", p->cores, p->efficiency_cores)
                                  : std::to_string(p->cores);
    const std::string channels =
        p->memory_channels ? fmt::format("{}x{}", p->memory_channels, p->memory_type) : "-";
    t.rows.push_back({id, cores, p->simd, channels,
                      p->memory_bandwidth ? text(p->memory_bandwidth->value) : "-"});
  }
  return t;
}

Result<Table> list_ram(const Catalogue& c) {
  Table t{{"id", "bandwidth", "usual size"}, {}};
  for (const std::string& id : c.ids("hwprofiles/ram")) {
    const auto r = c.ram(id);
    if (!r) return r.error();
    t.rows.push_back({id, text(r->bandwidth.value), text_gib(r->capacity.value)});
  }
  return t;
}

Result<Table> list_ssds(const Catalogue& c) {
  Table t{{"id", "interface", "sequential read"}, {}};
  for (const std::string& id : c.ids("hwprofiles/ssds")) {
    const auto s = c.ssd(id);
    if (!s) return s.error();
    t.rows.push_back({id, s->interface, text(s->sequential_read.value)});
  }
  return t;
}

Result<Table> list_models(const Catalogue& c) {
  Table t{{"id", "parameters", "Q4_K_M", "KV per token", "context", "released"}, {}};
  const auto mix = QuantMix::from_name("Q4_K_M");
  if (!mix) return mix.error();
  for (const std::string& id : c.ids("models")) {
    const auto m = c.model(id);
    if (!m) return m.error();
    const auto table = make_tensor_table(*m, *mix);
    if (!table) return table.error();
    t.rows.push_back({id, fmt::format("{:.2f} B", double(table->elements()) / 1e9),
                      text_gb(Bytes{double(table->bytes())}),
                      fmt::format("{:.0f} B", kv_bytes_per_token(*m, {})), text_count(m->context),
                      m->released});
  }
  return t;
}

Result<Table> list_rigs(const Catalogue& c) {
  Table t{{"id", "gpu", "cpu", "ram"}, {}};
  for (const std::string& id : c.ids("hwprofiles/rigs")) {
    auto document = TomlDocument::read(c.root() / "hwprofiles/rigs" / (id + ".toml"));
    if (!document) return document.error();
    const TomlTable r = document->root();
    const auto gpus = r.texts("gpu");
    const std::string first = gpus.empty() ? "-" : gpus.front();
    t.rows.push_back(
        {id, gpus.size() > 1 ? fmt::format("{} and {} more", first, gpus.size() - 1) : first,
         r.text_or("cpu", "-"), r.text_or("ram", "-")});
  }
  return t;
}

Result<Table> list_runtimes(const Catalogue& c) {
  Table t{{"id", "name", "era", "kv policies"}, {}};
  for (const std::string& id : c.ids("runtimes")) {
    const auto file = c.runtime_file(id);
    if (!file) return file.error();
    const auto p = load_runtime_profile(*file);
    if (!p) return p.error();
    t.rows.push_back({id, p->name, p->era, p->kv_policy_names()});
  }
  return t;
}

Result<Table> list_quants(const Catalogue& c) {
  const auto defaults = default_parts(c);
  if (!defaults) return defaults.error();
  const auto model = c.model(defaults->model);
  if (!model) return model.error();
  Table t{{"id", "bits a weight", model->id}, {}};
  for (const std::string& name : QuantMix::names()) {
    const auto mix = QuantMix::from_name(name);
    if (!mix) return mix.error();
    const auto table = make_tensor_table(*model, *mix);
    if (!table) return table.error();
    t.rows.push_back(
        {name, fmt::format("{:.2f}", 8.0 * double(table->bytes()) / double(table->elements())),
         text_gb(Bytes{double(table->bytes())})});
  }
  return t;
}

std::string as_text(const Table& t) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < t.columns.size(); ++i) {
    std::size_t width = t.columns[i].size();
    for (const auto& row : t.rows) width = std::max(width, row[i].size());
    widths.push_back(width);
  }
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i)
      text += fmt::format("{:<{}}  ", cells[i], widths[i]);
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line(t.columns);
  for (const auto& row : t.rows) line(row);
  return out;
}

std::string as_csv(const Table& t) {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) out += ',';
      out += csv_quote(cells[i]);
    }
    out += "\n";
  };
  line(t.columns);
  for (const auto& row : t.rows) line(row);
  return out;
}

std::string as_json(const Table& t) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& row : t.rows) {
    nlohmann::ordered_json entry;
    for (std::size_t i = 0; i < row.size(); ++i) entry[t.columns[i]] = row[i];
    out.push_back(std::move(entry));
  }
  return out.dump(2) + "\n";
}

using Lister = Result<Table> (*)(const Catalogue&);
constexpr std::pair<const char*, Lister> kListers[] = {
    {"rigs", list_rigs},     {"gpus", list_gpus},         {"cpus", list_cpus},
    {"ram", list_ram},       {"ssds", list_ssds},         {"models", list_models},
    {"quants", list_quants}, {"runtimes", list_runtimes},
};

int list_verb(const std::string& what, const OutputOptions& output, const Catalogue& catalogue) {
  for (const auto& [name, lister] : kListers) {
    if (what != name) continue;
    const auto table = lister(catalogue);
    if (!table) return fail(table.error());
    std::string out;
    switch (output.format) {
      case Format::kText: out = as_text(*table); break;
      case Format::kJson: out = as_json(*table); break;
      case Format::kCsv: out = as_csv(*table); break;
    }
    if (auto error = emit(output, out)) return fail(*error);
    return kDone;
  }
  return fail(bad_input(fmt::format("nothing to list under \"{}\"", what),
                        "rigs, gpus, cpus, ram, ssds, models, quants or runtimes"));
}

}  // namespace

void add_list(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("list", "List the catalogue");
  auto what = std::make_shared<std::string>();
  auto output = std::make_shared<OutputOptions>();
  verb->add_option("what", *what, "rigs, gpus, cpus, ram, ssds, models, quants or runtimes")
      ->required()
      ->type_name("WHAT");
  output->add_to(*verb);
  run_with_catalogue(*verb, open, run, [what, output](const Catalogue& catalogue) {
    return list_verb(*what, *output, catalogue);
  });
}

}  // namespace rigcast::cli
