#include "sim/serving/cache/restore_choice.hpp"

namespace rigcast {

void RestoreChoice::computed(TokenCount tokens, Seconds took) {
  constexpr double kOlder = 0.9;  // of its weight, with every further measurement
  tokens_ = kOlder * tokens_ + double(tokens);
  time_ = kOlder * time_ + took.value;
}

std::uint32_t RestoreChoice::blocks_back(const std::vector<FoundRun>& found) const {
  if (rule_.when == KvRestore::kRecompute) return 0;
  const bool all = rule_.when == KvRestore::kAlways || time_ <= 0;
  const double anew = all ? 0 : double(block_) / prompt_rate();
  std::uint32_t passed = 0, back = 0;
  double gain = 0, highest = 0;  // seconds, of all that was passed
  for (const FoundRun& run : found) {
    passed += run.blocks;
    const Seconds copy = bytes_ / (run.on_disk ? rule_.from_disk : rule_.from_ram);
    gain += double(run.blocks) * (anew - copy.value);
    if (!all && gain < highest) continue;
    highest = gain;
    back = passed;
  }
  return back;
}

}  // namespace rigcast
