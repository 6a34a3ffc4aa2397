#include "validation/runs/llama_cpp/bench_build.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "core/files/interrupt.hpp"
#include "core/files/temporary_file.hpp"
#include "core/model/quant_mix.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/synth/synthetic_file.hpp"
#include "measurements/build_month.hpp"

namespace rigcast::validation {
namespace {

constexpr const char* kModel = "smollm2-135m";
constexpr Seconds kTime{60};

std::optional<TemporaryFile> small_model(const std::filesystem::path& file,
                                         const Catalogue& catalogue) {
  auto model = catalogue.model(kModel);
  const auto mix = QuantMix::from_name("Q8_0");
  if (!model || !mix) return std::nullopt;
  model->layers = 1;
  const auto table = make_tensor_table(*model, *mix);
  if (!table) return std::nullopt;
  if (engine::write_synthetic_file(*model, *table, mix->name(), 1, file, {}, stop_flag(),
                                   {engine::FileVocabulary::kWords}))
    return std::nullopt;
  return TemporaryFile(file);
}

}  // namespace

std::optional<std::string> build_month_of(const LlamaBench& bench,
                                          const std::filesystem::path& folder,
                                          const Catalogue& catalogue) {
  const auto file = folder / fmt::format("rigcast-build-{}.gguf", ::getpid());
  const auto model = small_model(file, catalogue);
  if (!model) return std::nullopt;
  const LlamaBenchRun run = run_llama_bench(
      bench, {"llama-bench", "-m", file.string(), "-p", "1", "-n", "0", "-r", "1"}, kTime);
  return run.build ? build_month_of(*run.build) : std::nullopt;
}

std::optional<std::string> build_month_of(const BenchBuild& build) {
  if (build.number <= 0) return std::nullopt;
  Measurement m;
  m.build = fmt::format("{} ({})", build.number, build.commit);
  const auto month = build_month(m);
  return month ? std::optional(month->text()) : std::nullopt;
}

}  // namespace rigcast::validation
