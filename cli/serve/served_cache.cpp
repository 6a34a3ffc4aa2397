#include "cli/serve/served_cache.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/model/kv_bytes.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "core/text/unit_text.hpp"
#include "probe/host.hpp"

namespace rigcast::cli {
namespace {

constexpr double kShareOfFree = 0.5;

TokenCount blocks_for(TokenCount tokens, TokenCount block) { return (tokens + block - 1) / block; }

}  // namespace

Result<engine::BatchOptions> batch_options(const Scenario& s,
                                           const validation::ExecuteOptions& options,
                                           const ServedCache& cache) {
  engine::BatchOptions out;
  out.step_sequences = cache.sequences;
  out.step_tokens = std::max<TokenCount>(s.settings.ubatch, cache.sequences);
  if (s.model.recurrent) out.checkpoints = state_checkpoints(std::size_t(cache.sequences));
  const TokenCount block = s.kv.block_tokens, context = s.workload.context;
  const TokenCount least = blocks_for(context, block);
  const bool in_ram = !options.backend->is_gpu() || s.kv.policy == KvPolicy::kStream ||
                      s.kv.policy == KvPolicy::kPaged;
  const double block_bytes = kv_bytes_per_token(s.model, s.kv.types) * double(block);
  const double available = probe::read_host().available.value;
  const double free = std::max(available - double(s.tensors.bytes()), 0.0);
  if (cache.kv_tokens > 0) {
    const TokenCount blocks = blocks_for(cache.kv_tokens, block);
    if (blocks < least)
      return bad_input(
          fmt::format("--kv-tokens {}: one request may have {} tokens", cache.kv_tokens, context),
          "more of them, or a shorter --context");
    // A GPU has the weights, or a part of them.
    const double most = options.backend->is_gpu() ? available : free;
    if (in_ram && double(blocks) * block_bytes > most)
      return Error{
          ErrorKind::kDoesNotFit,
          fmt::format("--kv-tokens {} take {} of memory, {} are free", cache.kv_tokens,
                      text_gib(Bytes{double(blocks) * block_bytes}), text_gib(Bytes{most})),
          "fewer of them, or a smaller --kv-type",
          {}};
    out.blocks = int(blocks);
    return out;
  }
  if (!in_ram || options.ram_limit) return out;
  const auto room = TokenCount(kShareOfFree * free / block_bytes);
  if (room < least)
    return Error{
        ErrorKind::kDoesNotFit,
        fmt::format("a context of {} tokens takes {}, more than half of the {} that the "
                    "weights leave free",
                    context, text_gib(Bytes{block_bytes * double(least)}), text_gib(Bytes{free})),
        "a shorter --context, or a smaller --kv-type; --kv-tokens to use more",
        {}};
  out.blocks = int(std::min(room, least * cache.sequences));
  return out;
}

}  // namespace rigcast::cli
