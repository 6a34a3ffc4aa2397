#include "sim/serving/lockstep.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/scenario/regime.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "report/report_words.hpp"
#include "sim/serving/batch_time.hpp"

namespace rigcast {
namespace {

// All prompts, one behind the other, in pieces of a batch.
Seconds time_of_prompts(const BatchTime& time, const LockstepLoad& load, TokenCount batch) {
  const int prompts = load.shared_prompt ? 1 : load.sequences;
  Seconds sum;
  std::vector<SequencePart> piece;
  TokenCount room = batch;
  const auto compute = [&] {
    sum += time.of(piece);
    piece.clear();
    room = batch;
  };
  for (int i = 0; i < prompts; ++i) {
    for (TokenCount cached = 0; cached < load.prompt;) {
      const TokenCount tokens = std::min(room, load.prompt - cached);
      const bool is_last = i + 1 == prompts && cached + tokens == load.prompt;
      piece.push_back({cached, tokens, is_last});
      cached += tokens;
      room -= tokens;
      if (room == 0) compute();
    }
  }
  if (!piece.empty()) compute();
  return sum;
}

// The time of a step grows almost as the cache does: its mean over the answer is that of a few.
Seconds time_of_answers(const BatchTime& time, const LockstepLoad& load) {
  constexpr TokenCount kSamples = 8;
  const TokenCount samples = std::min(kSamples, load.answer);
  const int together = load.separate_answers ? 1 : load.sequences;
  Seconds sum;
  for (TokenCount k = 0; k < samples; ++k) {
    const TokenCount answered = ((2 * k + 1) * load.answer - samples) / (2 * samples);
    sum += time.of(std::vector<SequencePart>(std::size_t(together),
                                             {load.prompt + std::max<TokenCount>(answered, 0), 1}));
  }
  const double steps = double(load.answer) * double(load.sequences) / double(together);
  return sum * (steps / double(samples));
}

}  // namespace

Result<LockstepForecast> forecast_lockstep(const Scenario& s, const LockstepLoad& load) {
  constexpr double kMaxPieces = 100'000;
  if (double(load.prompt) * load.sequences > kMaxPieces * s.settings.batch)
    return bad_input("the prompts are too long for steps of so few tokens", "a larger --batch");
  const Placement placement = resolve_placement(s);
  const MemoryPlan memory = plan_memory(s, placement, s.workload.context);
  if (!memory.fits())
    return Error{ErrorKind::kDoesNotFit, shortage_text(memory),
                 "another --quant or --kv-type, or fewer sequences"};
  const Regime regime = regime_of(s, placement);
  const ProfileInterval decode = profile_interval(s, SpeedMetric::kDecode, regime);
  const ProfileInterval prefill = profile_interval(s, SpeedMetric::kPrefill, regime);
  Scenario alone = s;
  alone.runtime.server.reset();  // whose scheduler is not in between
  const BatchTime time(alone, placement, memory);
  const LockstepTimes times{time_of_prompts(time, load, s.settings.batch),
                            time_of_answers(time, load)};
  return LockstepForecast{times,
                          {times.prompts / prefill.high, times.answers / decode.high},
                          {times.prompts / prefill.low, times.answers / decode.low}};
}

}  // namespace rigcast
