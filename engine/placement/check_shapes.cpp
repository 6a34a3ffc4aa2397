#include "engine/placement/check_shapes.hpp"

#include <fmt/format.h>

#include <span>
#include <string>

#include "engine/model/fused_blocks.hpp"
#include "engine/model/layer_weights.hpp"

namespace rigcast::engine {
namespace {

constexpr std::int64_t kMaxHeadDim = 512;
constexpr std::int64_t kMaxMambaHead = 128, kMambaState = 128;
constexpr std::int64_t kMaxRowWidth = 65536;
constexpr int kMaxExperts = 1024, kMaxExpertsUsed = 32, kMaxExpertGroups = 32;

Error refused(const std::string& what, const std::string& limit) {
  return bad_input(fmt::format("{} is not executed on a GPU: {}", what, limit), "--device cpu");
}

std::optional<Error> check_row_shape(const std::string& name, const Matrix& w) {
  if (!w.columns || (w.columns % 32 == 0 && w.columns <= kMaxRowWidth)) return std::nullopt;
  return refused(fmt::format("\"{}\" of {} x {}", name, w.columns, w.rows),
                 fmt::format("rows are a multiple of 32 up to {} there", kMaxRowWidth));
}

std::optional<Error> check_router(const std::string& name, const Matrix& router, int used) {
  using enum QuantFormat;
  if (router.rows > kMaxExperts || used > kMaxExpertsUsed)
    return refused(fmt::format("\"{}\": {} experts of which {} are used", name, router.rows, used),
                   fmt::format("at most {} and {} are there", kMaxExperts, kMaxExpertsUsed));
  if (router.format == kF32 || router.format == kF16 || router.format == kBF16) return std::nullopt;
  return refused(fmt::format("\"{}\" in {}", name, info(router.format).name),
                 "routers are in F32, F16 or BF16 there");
}

// Attention, or a recurrent mixer in its place.
bool mixes_tokens(FusedBlock block) {
  using enum FusedBlock;
  return block == kAttention || block == kDeltaNet || block == kMamba || block == kShortConvolution;
}

// What mixes tokens, perhaps a mixer beside it, then an FFN or experts, and a token's input of the
// layer behind them; or one of these alone.
bool is_in_order(std::span<const FusedBlock> blocks, bool mixer_beside) {
  const auto feeds = [](FusedBlock block) {
    return block == FusedBlock::kFfn || block == FusedBlock::kExperts;
  };
  if (blocks.size() == 1) return mixes_tokens(blocks[0]) || feeds(blocks[0]);
  if (mixer_beside) blocks = blocks.subspan(1);
  const bool has_input = blocks.size() == 3 && blocks[2] == FusedBlock::kLayerInput;
  return (blocks.size() == 2 || has_input) && mixes_tokens(blocks[0]) && feeds(blocks[1]);
}

// Blocks come in the order in which HostPlacement::calls() has the host answer for them.
std::optional<Error> refuse_operations(const Model& model) {
  if (auto error = check_layers(model, decoder_blocks(), "a GPU")) return error;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto blocks = fuse(model.layers[i].ops, decoder_blocks()).value();
    if (!is_in_order(blocks, model.layers[i].has_parallel_mixer()))
      return refused(fmt::format("{}, layer {},", model.spec.name, i),
                     "a layer is attention, then an FFN or experts there");
  }
  return std::nullopt;
}

// Heads of Mamba 2 have a row of their state in a thread block for each value, and groups are
// normed by warps.
std::optional<Error> refuse_mixer_widths(const Model& model) {
  for (const Layer& l : model.layers) {
    const MixerWidths& m = l.mixer;
    if (!uses(l.ops, OpKind::kMamba)) continue;
    const std::int64_t head = m.inner_size / m.time_step_rank, group = m.inner_size / m.group_count;
    if (head * m.time_step_rank != m.inner_size || m.time_step_rank % m.group_count != 0 ||
        head % 4 != 0 || head > kMaxMambaHead || group % 32 != 0 || m.state_size != kMambaState)
      return refused(
          fmt::format("{} with {} heads of Mamba 2 of {} values in {} groups, and states of {}",
                      model.spec.name, m.time_step_rank, head, m.group_count, m.state_size),
          fmt::format("heads are a multiple of 4 up to {} there, groups of 32, and states of {}",
                      kMaxMambaHead, kMambaState));
  }
  return std::nullopt;
}

// What CPUs compute and kernels of a GPU do not.
std::optional<Error> refuse_weights(const Model& model) {
  for (const Layer& l : model.layers) {
    const bool beside = l.has_parallel_ffn() || l.has_parallel_mixer();
    if (beside && (!l.attention_post_norm.empty() || !l.ffn_post_norm.empty() ||
                   model.hyper.residual_scale != 1))
      return refused(fmt::format("{} with norms or scales behind attention and {} beside it",
                                 model.spec.name, l.has_parallel_ffn() ? "an FFN" : "a mixer"),
                     "their results are added as they are there");
    const bool has_norms_of_experts = !l.router_norm.empty();
    if (has_norms_of_experts && l.ffn_post_norm.empty())
      return refused(fmt::format("{} with experts beside a dense FFN and no norm of their sum",
                                 model.spec.name),
                     "the sum has one there");
    const bool has_biases = !l.attention_norm_bias.empty() || !l.ffn_norm_bias.empty();
    if (has_biases && (!uses(l.ops, OpKind::kLayerNorm) || !l.ffn_norm_bias.empty()))
      return refused(fmt::format("{} with biases of norms of squares", model.spec.name),
                     "norms with a bias subtract the mean there");
    if (l.has_shared_expert() && !l.ffn_post_norm.empty() && !has_norms_of_experts)
      return refused(fmt::format("{} with shared experts and a norm of their sum", model.spec.name),
                     "the host may compute the others");
    const bool has_norms = !l.q_norm.empty() || !l.k_norm.empty();
    if ((l.rule.norms_rotated && l.has_wide_head_norms()) || (l.rule.plain_norms && has_norms))
      return refused(
          fmt::format("{} with two norms of heads, or one of all rotated heads", model.spec.name),
          "a head has one of its own there");
    const ExpertRouting& routing = model.hyper.routing;
    if (routing.scales_input && uses(l.ops, LayerWeight::kRouter) &&
        (model.spec.moe->experts_used != 1 || l.ffn_norm.empty() || !l.ffn_post_norm.empty() ||
         l.has_clamped_experts() || model.hyper.residual_scale != 1))
      return refused(
          fmt::format("{} with weights of what several experts read, or of norms", model.spec.name),
          "they are of one expert's input there, whose output is added as it is");
    if (routing.has_groups() && routing.groups > kMaxExpertGroups)
      return refused(fmt::format("{} with {} groups of experts", model.spec.name, routing.groups),
                     fmt::format("at most {} are there", kMaxExpertGroups));
  }
  return std::nullopt;
}

// Kernels go through rows of the latent cache by pieces of these widths.
std::optional<Error> refuse_latent(const Model& model) {
  constexpr std::int64_t kMaxRank = 512, kMaxRow = 1024;
  for (const Layer& l : model.layers) {
    const LatentShape& a = l.latent;
    if (!a) continue;
    const bool fits = a.rank % 64 == 0 && a.rank <= kMaxRank && a.row() <= kMaxRow &&
                      a.row() <= model.spec.hidden && a.plain % 32 == 0 && a.turned % 32 == 0 &&
                      a.value % 32 == 0 && model.hyper.rope_dims == a.turned;
    if (!fits)
      return refused(
          fmt::format("{} with latent rows of {} + {} elements, heads of {} + {} and values of {}",
                      model.spec.name, a.rank, a.turned, a.plain, a.turned, a.value),
          fmt::format("these are multiples of 64 up to {}, and of 32, there", kMaxRank));
  }
  return std::nullopt;
}

std::optional<Error> refuse_heads(const Model& model) {
  for (const Layer& l : model.layers) {
    const AttentionShape& own = l.attention;
    if (!l.latent && (own.head_dim % 8 != 0 || own.head_dim > kMaxHeadDim))
      return refused(fmt::format("{} with heads of {}", model.spec.name, own.head_dim),
                     fmt::format("heads are a multiple of 8 up to {} wide there", kMaxHeadDim));
  }
  return std::nullopt;
}

std::optional<Error> check_layer_placement(const Model& model, int index) {
  const Layer& l = model.layers[std::size_t(index)];
  const auto name = [&](LayerWeight w) { return fmt::format("blk.{}.{}", index, name_of(w)); };
  std::optional<Error> error;
  const auto check = [&](LayerWeight weight, const Matrix& w) {
    if (!error) error = check_row_shape(name(weight), w);
  };
  for_each_matrix(check, l);
  for_each_stack([&](LayerWeight weight, const MatrixStack& s) { check(weight, s.first); }, l);
  if (error || l.router.rows == 0) return error;
  return check_router(name(LayerWeight::kRouter), l.router, model.spec.moe->experts_used);
}

}  // namespace

std::optional<Error> check_shapes_on_gpu(const Model& model) {
  if (auto error = refuse_operations(model)) return error;
  if (auto error = refuse_weights(model)) return error;
  if (auto error = refuse_latent(model)) return error;
  if (auto error = refuse_heads(model)) return error;
  if (auto error = refuse_mixer_widths(model)) return error;
  for (int i = 0; i < int(model.layers.size()); ++i)
    if (auto error = check_layer_placement(model, i)) return error;
  if (auto error = check_row_shape("per_layer_model_proj.weight", model.input_projection))
    return error;
  return check_row_shape("output.weight", model.head);
}

}  // namespace rigcast::engine
