#include "engine/run/request.hpp"

#include <ctime>

#include "core/base/error.hpp"
#include "core/base/stop_flag.hpp"
#include "engine/synth/counter_rng.hpp"

namespace rigcast::engine {
namespace {

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

class Recording {
 public:
  Recording(Executor& executor, Recorder* recorder) : executor_(executor) {
    executor.record_into(recorder);
  }
  ~Recording() { executor_.record_into(nullptr); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  Executor& executor_;
};

}  // namespace

RequestTimes run_request(Executor& executor, std::span<const std::int32_t> prompt,
                         TokenCount output, Sampler& sampler, const OnToken& on_token,
                         Recorder* recorder) {
  RIGCAST_ASSERT(output >= 1 && !prompt.empty());
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const double cpu_begin = cpu_seconds();
  RequestTimes times;
  times.tokens.at_s.reserve(std::size_t(output));
  executor.take_bytes();
  const Recording recording(executor, recorder);
  if (recorder) recorder->set_phase(Phase::kPrefill);
  const std::span<const float> logits = executor.forward(prompt, Logits::kLast);
  times.prefill = Seconds{elapsed()};
  times.prefill_bytes = executor.take_bytes();
  if (recorder) recorder->set_phase(Phase::kDecode);
  std::int32_t id = sample(sampler, logits, executor.cached(), recorder);
  executor.expect(output - 1);
  while (true) {
    times.tokens.at_s.push_back(elapsed());
    times.ids.push_back(id);
    const bool more = !on_token || on_token(id);
    if (!more || TokenCount(times.ids.size()) == output) break;
    try {
      id = executor.decode(id, sampler);
    } catch (const Interrupted&) {
      break;
    }
  }
  times.cpu_share = (cpu_seconds() - cpu_begin) / (elapsed() * executor.threads());
  times.sample = Seconds{times.tokens.at_s.front()} - times.prefill;
  times.decode_bytes = executor.take_bytes();
  return times;
}

std::vector<std::int32_t> random_prompt(TokenCount tokens, std::int64_t vocabulary,
                                        std::uint64_t seed) {
  std::vector<std::int32_t> ids;
  for (TokenCount i = 0; i < tokens; ++i)
    ids.push_back(std::int32_t(random_word(seed, std::uint64_t(i)) % std::uint64_t(vocabulary)));
  return ids;
}

}  // namespace rigcast::engine
