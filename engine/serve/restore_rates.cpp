#include "engine/serve/restore_rates.hpp"

namespace rigcast::engine {

// About the last ten measurements count.
void RestoreRates::Measured::add(double more, double took) {
  constexpr double kKept = 0.9;
  amount = amount * kKept + more;
  seconds = seconds * kKept + took;
}

std::optional<double> RestoreRates::Measured::rate() const {
  return seconds > 0 ? std::optional(amount / seconds) : std::nullopt;
}

RestoreRates RestoreRates::fixed(BytesPerSecond from_host, BytesPerSecond from_disk,
                                 double tokens) {
  RestoreRates out;
  out.copies_[std::size_t(KvTier::kHost)].add(from_host.value, 1);
  out.copies_[std::size_t(KvTier::kDisk)].add(from_disk.value, 1);
  out.prompts_.add(tokens, 1);
  out.fixed_ = true;
  return out;
}

void RestoreRates::copied(KvTier from, Bytes bytes, Seconds took) {
  if (!fixed_ && bytes.value > 0) copies_[std::size_t(from)].add(bytes.value, took.value);
}

void RestoreRates::computed(TokenCount tokens, Seconds took) {
  if (!fixed_ && tokens > 0) prompts_.add(double(tokens), took.value);
}

std::optional<BytesPerSecond> RestoreRates::copy_rate(KvTier from) const {
  const auto rate = copies_[std::size_t(from)].rate();
  return rate ? std::optional(BytesPerSecond{*rate}) : std::nullopt;
}

std::optional<double> RestoreRates::tokens_per_s() const { return prompts_.rate(); }

std::size_t RestoreRates::worth_restoring(std::span<const KvTier> blocks, Bytes block_bytes,
                                          TokenCount block_tokens, KvRestore rule) const {
  if (rule == KvRestore::kRecompute) return 0;
  const auto tokens = tokens_per_s();
  if (rule == KvRestore::kAlways || !tokens) return blocks.size();
  const double computing = double(block_tokens) / *tokens;  // a block, in seconds
  double saved = 0, most = 0;
  std::size_t best = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto rate = copy_rate(blocks[i]);
    saved += computing - (rate ? block_bytes / *rate : Seconds{}).value;
    if (saved < most) continue;
    most = saved;
    best = i + 1;
  }
  return best;
}

}  // namespace rigcast::engine
