#include "engine/synth/synthetic_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "engine/architectures/bind_model.hpp"
#include "engine/gguf/writer.hpp"
#include "engine/model/file_tensors.hpp"
#include "engine/synth/file_metadata.hpp"
#include "engine/synth/synth.hpp"
#include "engine/synth/synthetic_vocabulary.hpp"

namespace rigcast::engine {
namespace {

// The general.file_type of a mix, which readers use only as a hint; F32 if there is none.
std::uint32_t file_type_of(std::string_view quant) {
  constexpr std::pair<std::string_view, std::uint32_t> kTypes[] = {
      {"F32", 0},      {"F16", 1},      {"Q4_0", 2},    {"Q4_1", 3},    {"Q8_0", 7},
      {"Q5_0", 8},     {"Q5_1", 9},     {"Q2_K", 10},   {"Q3_K_S", 11}, {"Q3_K_M", 12},
      {"Q3_K_L", 13},  {"Q4_K_S", 14},  {"Q4_K_M", 15}, {"Q5_K_S", 16}, {"Q5_K_M", 17},
      {"Q6_K", 18},    {"IQ2_XXS", 19}, {"IQ2_XS", 20}, {"Q2_K_S", 21}, {"IQ3_XS", 22},
      {"IQ3_XXS", 23}, {"IQ1_S", 24},   {"IQ4_NL", 25}, {"IQ3_S", 26},  {"IQ3_M", 27},
      {"IQ2_S", 28},   {"IQ2_M", 29},   {"IQ4_XS", 30}, {"IQ1_M", 31},  {"BF16", 32},
      {"MXFP4", 38}};
  for (const auto& [name, type] : kTypes)
    if (name == quant) return type;
  return 0;
}

GgufHeader header_of(const ModelSpec& m, const TensorTable& tensors, const std::string& quant,
                     std::uint64_t seed, bool with_vocabulary) {
  GgufHeader header;
  header.set("general.architecture", m.architecture);
  header.set("general.name", m.name + " (synthetic weights)");
  header.set("general.file_type", file_type_of(quant));
  header.set("rigcast.seed", seed);
  set_file_metadata(header, m);
  if (with_vocabulary)
    set_synthetic_vocabulary(header, m.vocabulary);
  else
    header.set("tokenizer.ggml.model", "no_vocab");  // llama.cpp requires the key
  for (const Tensor& t : tensors.tensors)
    header.add_tensor(t.name, t.format, std::span(t.shape).first(std::size_t(t.dimensions)));
  return header;
}

}  // namespace

std::optional<Error> write_synthetic_file(const ModelSpec& spec, const TensorTable& model_tensors,
                                          const std::string& quant, std::uint64_t seed,
                                          const std::filesystem::path& target,
                                          const Progress& progress, const StopFlag& stop,
                                          const SyntheticFileOptions& options) try {
  if (auto error = check_file_architecture(spec)) return error;
  if (auto error = check_formats(model_tensors)) return error;
  const TensorTable tensors = file_tensors(spec, model_tensors);
  const bool with_vocabulary =
      options.vocabulary == FileVocabulary::kWords && spec.vocabulary >= kFewestTokens;
  auto writer = GgufWriter::create(target, header_of(spec, tensors, quant, seed, with_vocabulary));
  if (!writer) return writer.error();
  const SynthTraits traits = synth_traits(tensors);
  std::uint64_t done = 0;
  for (const Tensor& t : tensors.tensors) {
    const auto fill = [&](std::uint64_t first_block, std::span<std::byte> blocks) {
      stop.throw_if_requested();
      synthesize(t, seed, first_block, blocks, traits);
      done += blocks.size();
      if (progress) progress(done);
    };
    const bool holes = options.weights == FileWeights::kZeros;
    if (auto error = holes ? writer->skip() : writer->write_chunks(fill)) return error;
  }
  return writer->finish(stop);
} catch (const Interrupted&) {
  return Error{
      ErrorKind::kMachine, "stopped before it was written", {}, SourceRef{target.string()}};
}

}  // namespace rigcast::engine
