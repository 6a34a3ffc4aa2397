#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "cli/shared/flag_checks.hpp"
#include "cli/shared/output.hpp"
#include "cli/shared/probed_gpus.hpp"
#include "cli/verbs.hpp"
#include "core/files/interrupt.hpp"
#include "core/files/output_file.hpp"
#include "core/text/unit_text.hpp"
#include "probe/gpu/measure_gpus.hpp"
#include "probe/gpu_part.hpp"
#include "probe/machine.hpp"
#include "report/terminal/progress_line.hpp"
#include "report/terminal/text_style.hpp"
#include "validation/runs/local_machine.hpp"

namespace rigcast::cli {
namespace {

struct Options {
  std::string file;
  std::string scratch;
};

std::vector<std::string> ids_of(const probe::Gpus& gpus, const Catalogue& catalogue) {
  std::vector<std::string> ids;
  for (const probe::Gpu& gpu : gpus.found) ids.push_back(probe::gpu_of_catalogue(gpu, catalogue));
  return ids;
}

std::string table(const probe::Machine& m, const std::vector<std::string>& gpus) {
  const probe::Host& h = m.host;
  std::string out = fmt::format("{}, {} {}, {}, {} memory{}\n\n", h.cpu.empty() ? "CPU" : h.cpu,
                                h.cores, h.cores == 1 ? "core" : "cores", h.simd,
                                text_gib(h.memory), h.contained ? " (the container's limit)" : "");
  int threads = 1;
  for (std::size_t i = 0; i < m.dram.size(); ++i, threads *= 2) {
    const int n = i + 1 == m.dram.size() ? h.cores : threads;
    out += probe_rate_row(fmt::format("memory read, {} {}", n, n == 1 ? "thread" : "threads"),
                          m.dram[i]);
  }
  const auto flops = [](const probe::Samples& t) {
    return three_digits(t.median / 1e9) + " GFLOP/s";
  };
  out += probe_row("8-bit products, all cores", m.cpu.int8, flops(m.cpu.int8));
  out += probe_row("F32 products, all cores", m.cpu.fp32, flops(m.cpu.fp32));
  if (m.cpu.clock.n > 0)
    out += probe_row("clock, all cores at work", m.cpu.clock,
                     three_digits(m.cpu.clock.median / 1e9) + " GHz");
  out += probe_rate_row("disk, in order, past the cache", m.disk.sequential);
  out += probe_rate_row("disk, pages of a mapping, 8 threads", m.disk.mapped);
  for (const probe::RandomReads& r : m.disk.random)
    out += probe_row(fmt::format("disk, 4 KiB anywhere, {} at once", r.depth), r.per_s,
                     three_digits(r.per_s.median) + " /s");
  out += probe_rate_row("page cache, one thread", m.disk.page_cache);
  out += gpu_rows(m.gpus);
  for (const std::string& warning : probe::quality_warnings(m)) out += "\n  note   " + warning;
  for (std::size_t i = 0; i < gpus.size(); ++i)
    if (gpus[i].empty())
      out += fmt::format(
          "\n  note   GPU {}: the catalogue has no {} of {}: write the nearest (rigcast list gpus) "
          "into the rig file, where it says so",
          i, printable(m.gpus.found[i].name), text_gib(m.gpus.found[i].memory));
  return out + "\n";
}

int probe_verb(const Options& options, const Catalogue& catalogue) try {
  if (const auto error = check_outputs({options.file})) return fail(*error);
  const std::filesystem::path scratch = options.scratch.empty()
                                            ? std::filesystem::current_path()
                                            : std::filesystem::path(options.scratch);
  if (auto error = make_folder(scratch)) {
    error->hint = "--scratch DIR, a folder that can be written to";
    return fail(*error);
  }
  const OnInterrupt on_interrupt;
  auto machine = probe::measure_machine(scratch, show_progress, stop_flag());
  if (!machine) return fail(machine.error());
  machine->gpus = probe::measure_gpus(show_progress, stop_flag());
  const std::vector<std::string> gpus = ids_of(machine->gpus, catalogue);
  std::fputs(table(*machine, gpus).c_str(), stdout);
  if (options.file.empty()) {
    std::fputs("\n  next   rigcast probe -o my-rig.toml, then rigcast simulate --rig my-rig.toml\n",
               stdout);
    return kDone;
  }
  const std::string toml =
      probe::rig_toml(*machine, validation::cpu_of_catalogue(machine->host, catalogue), gpus);
  if (auto error = write_file(options.file, toml)) return fail(*error);
  fmt::print("\n  wrote  {}: rigcast simulate --rig {} --model llama-3.2-1b\n", options.file,
             options.file);
  return kDone;
} catch (const Interrupted&) {
  show_progress("");
  return fail({ErrorKind::kMachine,
               "interrupted: nothing was measured to its end, nothing is kept",
               "the same command measures anew",
               {}});
}

}  // namespace

void add_probe(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("probe", "Measure this machine and write it as a rig");
  auto options = std::make_shared<Options>();
  verb->add_option("-o,--output", options->file, "the rig file to write")
      ->check(not_empty())
      ->type_name("RIG.toml");
  verb->add_option(
          "--scratch", options->scratch,
          "folder for a file of 1 GiB, on the disk that models lie on (default: here); made if it "
          "is not there")
      ->check(not_empty())
      ->type_name("DIR");
  verb->footer("Example\n  rigcast probe -o my-rig.toml --scratch /models");
  run_with_catalogue(*verb, open, run, [options](const Catalogue& catalogue) {
    return probe_verb(*options, catalogue);
  });
}

}  // namespace rigcast::cli
