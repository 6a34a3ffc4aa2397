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

// Of layers that see all tokens, and of those with a window, whose blocks are apart if there are
// fewer than of the others. Mirrors with_windows_apart
// (engine/backends/cpu/batch/make_cpu_batch_executor.cpp).
struct PoolBytes {
  double all = 0, window = 0;  // of a block
  TokenCount windows = 0;      // blocks; 0: not apart

  double of(TokenCount blocks) const {
    return double(blocks) * all + double(windows > 0 ? std::min(blocks, windows) : blocks) * window;
  }
  TokenCount within(double bytes) const {
    const auto together = TokenCount(bytes / (all + window));
    if (windows == 0 || together <= windows) return together;
    return TokenCount((bytes - double(windows) * window) / all);
  }
};

PoolBytes pool_bytes(const Scenario& s, const engine::BatchOptions& batch, TokenCount block,
                     bool on_cpu) {
  PoolBytes bytes;
  for (int l = 0; l < s.model.layers; ++l)
    (s.model.sees_all_tokens(l) ? bytes.all : bytes.window) +=
        double(block) * kv_bytes_per_token(s.model, l, s.kv.types);
  if (on_cpu && batch.windows_apart)
    bytes.windows = window_pool_blocks(s.model, batch.step_sequences, batch.step_tokens, block,
                                       batch.checkpoints);
  return bytes;
}

}  // namespace

Result<engine::BatchOptions> batch_options(const Scenario& s,
                                           const validation::ExecuteOptions& options,
                                           const ServedCache& cache) {
  engine::BatchOptions out;
  out.step_sequences = cache.sequences;
  out.step_tokens = std::max<TokenCount>(s.settings.ubatch, cache.sequences);
  out.checkpoints = server_checkpoints(s.model, std::size_t(cache.sequences));
  out.windows_apart = !cache.has_disk;
  const TokenCount block = s.kv.block_tokens, context = s.workload.context;
  const TokenCount least = blocks_for(context, block);
  const bool in_ram = !options.backend->is_gpu() || s.kv.policy == KvPolicy::kStream ||
                      s.kv.policy == KvPolicy::kPaged;
  const PoolBytes bytes = pool_bytes(s, out, block, !options.backend->is_gpu());
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
    if (in_ram && bytes.of(blocks) > most)
      return Error{ErrorKind::kDoesNotFit,
                   fmt::format("--kv-tokens {} take {} of memory, {} are free", cache.kv_tokens,
                               text_gib(Bytes{bytes.of(blocks)}), text_gib(Bytes{most})),
                   "fewer of them, or a smaller --kv-type",
                   {}};
    out.blocks = int(blocks);
    return out;
  }
  if (!in_ram || options.ram_limit) return out;
  const TokenCount room = bytes.within(kShareOfFree * free);
  if (room < least)
    return Error{ErrorKind::kDoesNotFit,
                 fmt::format("a context of {} tokens takes {}, more than half of the {} that the "
                             "weights leave free",
                             context, text_gib(Bytes{bytes.of(least)}), text_gib(Bytes{free})),
                 "a shorter --context, or a smaller --kv-type; --kv-tokens to use more",
                 {}};
  out.blocks = int(std::min(room, least * cache.sequences));
  return out;
}

}  // namespace rigcast::cli
