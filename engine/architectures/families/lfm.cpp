// LFM2, dense and with experts: short convolutions between gates, and attention in some layers.

#include "engine/architectures/families/families.hpp"

namespace rigcast::engine {

namespace {

float rope_base(const ModelSpec&) { return 1e6f; }

constexpr std::string_view kKeys[] = {"shortconv.l_cache"};

constexpr WeightName kNames[] = {{LayerWeight::kMixerIn, "shortconv.in_proj.weight"},
                                 {LayerWeight::kMixerTaps, "shortconv.conv.weight"},
                                 {LayerWeight::kMixerOut, "shortconv.out_proj.weight"}};

void choose_by_sigmoids(const ModelSpec&, Hyperparameters& h) { h.routing.sigmoid = true; }

constexpr Architecture lfm(std::string_view name) {
  return {.name = name,
          .rope_pairs = RopePairs::kNeox,
          .norm_eps = 1e-5f,
          .rope_base = rope_base,
          .mixer = Mixer::kShortConvolution,
          .set_usual = choose_by_sigmoids,
          .keys = &kDecoderKeys,
          .own_keys = kKeys,
          .names = kNames,
          .final_norm = "token_embd_norm.weight"};
}

constexpr Architecture kArchitectures[] = {lfm("lfm2"), lfm("lfm2moe")};

}  // namespace

std::span<const Architecture> lfm_family() { return kArchitectures; }

}  // namespace rigcast::engine
