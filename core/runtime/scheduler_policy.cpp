#include "core/runtime/scheduler_policy.hpp"

#include "core/runtime/kv_disk.hpp"

namespace rigcast {

std::string_view name(StepOrder order) {
  switch (order) {
    case StepOrder::kAdmission: return "admission";
    case StepOrder::kDecodesFirst: return "decodes-first";
    case StepOrder::kPromptsFirst: return "prompts-first";
    case StepOrder::kWholeBatches: return "whole-batches";
  }
  return "";
}

std::string_view name(KvRestore restore) {
  switch (restore) {
    case KvRestore::kAuto: return "auto";
    case KvRestore::kAlways: return "always";
    case KvRestore::kRecompute: return "never";
  }
  return "";
}

TokenCount stated_pool_tokens(const SchedulerPolicy& policy, TokenCount context) {
  const TokenCount block = policy.block_tokens;
  if (policy.pool_tokens > 0) return policy.pool_tokens / block * block;
  return TokenCount(policy.sequences) * ((context + block - 1) / block * block);
}

void read_kv_disk(const TomlTable& t, SchedulerPolicy& p) {
  if (const auto text = t.find_text("kv_disk")) {
    const auto disk = parse_kv_disk(*text);
    if (!disk) return t.refuse("kv_disk", disk.error());
    p.disk_cache = disk->size;
    p.disk_folder = disk->folder;
  }
  p.restore = t.choice("kv_restore", p.restore,
                       {{name(KvRestore::kAuto), KvRestore::kAuto},
                        {name(KvRestore::kAlways), KvRestore::kAlways},
                        {name(KvRestore::kRecompute), KvRestore::kRecompute}});
  if (p.disk_cache > 0_B && !p.prefix_cache)
    t.refuse("kv_disk", "without a prefix cache nothing that is on disk is found",
             "leave out scheduler.prefix_cache");
}

void refuse_idle_restore(const TomlTable& t, const SchedulerPolicy& p) {
  if (t.has("kv_restore") && p.disk_cache <= 0_B && p.ram_cache <= 0_B)
    t.refuse("kv_restore", "nothing is kept outside of the pool, so that nothing comes back",
             "--kv-disk DIR keeps it, or leave this out");
}

SchedulerPolicy read_scheduler(const TomlTable& t, const SchedulerPolicy& defaults) {
  constexpr std::int64_t kMaxTokens = 1 << 24;
  SchedulerPolicy p = defaults;
  p.order = t.choice("order", p.order,
                     {{name(StepOrder::kAdmission), StepOrder::kAdmission},
                      {name(StepOrder::kDecodesFirst), StepOrder::kDecodesFirst},
                      {name(StepOrder::kPromptsFirst), StepOrder::kPromptsFirst},
                      {name(StepOrder::kWholeBatches), StepOrder::kWholeBatches}});
  p.reserve = t.choice("reserve", p.reserve,
                       {{"step", KvReserve::kStep},
                        {"prompt", KvReserve::kPrompt},
                        {"answers", KvReserve::kAnswers},
                        {"estimate", KvReserve::kEstimate}});
  p.victim = t.choice(
      "victim", p.victim,
      {{"last-admitted", Victim::kLastAdmitted}, {"fewest-generated", Victim::kFewestGenerated}});
  p.requeue =
      t.choice("requeue", p.requeue, {{"first", Requeue::kFirst}, {"last", Requeue::kLast}});
  p.layout =
      t.choice("layout", p.layout, {{"blocks", KvLayout::kBlocks}, {"slots", KvLayout::kSlots}});
  p.step_tokens = t.integer_or("token_budget", p.step_tokens, 1, kMaxTokens);
  p.chunked = t.flag("chunked", p.chunked);
  const bool slots = p.layout == KvLayout::kSlots;
  const char* sequences = slots ? "slots" : "max_sequences";
  if (const char* other = slots ? "max_sequences" : "slots"; t.has(other)) {
    t.refuse(other, slots ? "this server has slots" : "this server has blocks of KV, not slots",
             slots ? "--slots N: requests that run at once"
                   : "--max-sequences N: requests that run at once");
    t.integer_or(other, 1, 1, kMaxTokens);
  }
  p.sequences = std::size_t(t.integer_or(sequences, std::int64_t(p.sequences), 1, 100'000));
  p.max_waiting =
      std::size_t(t.integer_or("max_waiting", std::int64_t(p.max_waiting), 0, 1'000'000'000));
  p.block_tokens = t.integer_or("block_tokens", p.block_tokens, 1, kMaxTokens);
  p.prefix_cache = t.flag("prefix_cache", p.prefix_cache);
  p.shares_in_step = t.flag("shares_in_step", p.shares_in_step);
  p.window_blocks = t.flag("window_blocks", p.window_blocks);
  p.pool = t.choice("pool", p.pool,
                    {{"share-less-peak", PoolRule::kShareLessPeak},
                     {"static-share", PoolRule::kStaticShare},
                     {"share-of-free", PoolRule::kShareOfFree},
                     {"tokens", PoolRule::kTokens}});
  constexpr std::int64_t kMaxPool = std::int64_t{1} << 40;
  p.pool_tokens = t.integer_or("pool_tokens", p.pool_tokens, 0, kMaxPool);
  if (t.has("pool_tokens") && p.pool != PoolRule::kTokens)
    t.refuse("pool_tokens", "the pool of this server follows from the memory of its GPUs",
             "memory_share");
  p.memory_share = t.number_or("memory_share", p.memory_share, 0.01, 1);
  if (const auto ram = t.find_figure<Bytes>("ram_cache", 0_B, 100'000_GiB))
    p.ram_cache = ram->value;
  p.ram_load = t.choice("ram_load", p.ram_load,
                        {{"ahead", RamLoad::kAhead},
                         {"by-layer", RamLoad::kByLayer},
                         {"blocking", RamLoad::kBlocking}});
  p.ram_min_tokens = t.integer_or("ram_min_tokens", p.ram_min_tokens, 1, kMaxTokens);
  read_kv_disk(t, p);
  p.unified = t.flag("unified", p.unified);
  if (p.unified && !slots)
    t.refuse("unified", "this server has blocks of KV, not slots", "leave it out");
  p.slot_similarity = t.number_or("slot_similarity", p.slot_similarity, 0, 1);
  p.estimate_first = t.number_or("estimate_first", p.estimate_first, 0, 1);
  p.estimate_least = t.number_or("estimate_least", p.estimate_least, 0, 1);
  p.estimate_steps = t.number_or("estimate_steps", p.estimate_steps, 1, 1e9);
  p.estimate_longest = t.integer_or("estimate_longest", p.estimate_longest, 1, kMaxTokens);
  t.finish();
  return p;
}

}  // namespace rigcast
