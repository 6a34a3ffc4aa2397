#include "tests/peers/llama_bench/bench.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

namespace llama_bench {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t ns_since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
}

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%FT%TZ", std::gmtime(&now));
  return text;
}

void check_decoded(std::int32_t code) {
  if (code == 0) return;
  throw Failure("the library cannot decode a batch: llama_decode returned " + std::to_string(code) +
                (code == -2 ? ", out of memory" : ""));
}

}  // namespace

void Bench::load(const ModelSettings& settings) {
  if (loaded_ == settings) return;
  model_.reset();
  loaded_.reset();
  depth_ = 0;
  const auto begin = Clock::now();
  before_ = library_.gpu_memory();  // makes the GPU's context, which is a part of the first load
  model_ = library_.load(settings);
  load_ns_ = ns_since(begin);
  loaded_ = settings;
}

llama_h::Token Bench::first_token(bool is_start) {
  const llama_h::Vocab* vocab = library_->llama_model_get_vocab(model_.get());
  if (is_start && library_->llama_vocab_get_add_bos(vocab)) return library_->llama_vocab_bos(vocab);
  return llama_h::Token(random_() % unsigned(library_->llama_vocab_n_tokens(vocab)));
}

void Bench::decode_prompt(llama_h::Context& context, int tokens, const Test& test) {
  std::vector<llama_h::Token> batch(std::size_t(std::min(tokens, test.n_batch)));
  for (int done = 0; done < tokens;) {
    const int now = std::min(tokens - done, test.n_batch);
    for (int i = 0; i < now; ++i) batch[std::size_t(i)] = first_token(done + i == 0);
    check_decoded(
        library_->llama_decode(&context, library_->llama_batch_get_one(batch.data(), now)));
    done += now;
  }
  library_->llama_synchronize(&context);
}

void Bench::decode_output(llama_h::Context& context, int tokens) {
  for (int i = 0; i < tokens; ++i) {
    llama_h::Token token = first_token(i == 0);
    check_decoded(library_->llama_decode(&context, library_->llama_batch_get_one(&token, 1)));
    library_->llama_synchronize(&context);
  }
}

// Tokens before those that are timed: computed once, restored from then on.
void Bench::fill_depth(llama_h::Context& context, const Test& test) {
  if (test.n_depth == 0) return;
  if (depth_ == test.n_depth &&
      library_->llama_state_seq_set_data(&context, state_.data(), state_.size(), 0) != 0)
    return;
  library_->llama_memory_clear(library_->llama_get_memory(&context), false);
  decode_prompt(context, test.n_depth, test);
  state_.resize(library_->llama_state_seq_get_size(&context, 0));
  library_->llama_state_seq_get_data(&context, state_.data(), state_.size(), 0);
  depth_ = test.n_depth;
}

Sample Bench::time_once(llama_h::Context& context, const Test& test) {
  library_->llama_memory_clear(library_->llama_get_memory(&context), false);
  fill_depth(context, test);
  library_->llama_perf_context_reset(&context);
  const auto begin = Clock::now();
  if (test.n_prompt > 0) decode_prompt(context, test.n_prompt, test);
  if (test.n_gen > 0) decode_output(context, test.n_gen);
  Sample sample{ns_since(begin), 0};
  const llama_h::PerfContextData perf = library_->llama_perf_context(&context);
  sample.library_ns = std::int64_t((perf.t_p_eval_ms + perf.t_eval_ms) * 1e6);
  return sample;
}

TestResult Bench::run(const Test& test) {
  load(test.model);
  TestResult out;
  out.test = test;
  char text[128] = "";
  library_->llama_model_desc(model_.get(), text, sizeof text);
  out.model_type = text;
  out.model_size = library_->llama_model_size(model_.get());
  out.model_n_params = library_->llama_model_n_params(model_.get());
  out.gpu_layers = test.model.gpu_layers.value_or(library_.default_gpu_layers());
  out.time = time_text();
  out.load_ns = load_ns_;

  const Library::ThreadPool threads = library_.make_threads(test.threads);
  const Library::Context context = library_.make_context(
      *model_, test, {std::int64_t(test.n_prompt) + test.n_gen + test.n_depth});
  library_->llama_set_n_threads(context.get(), test.threads, test.threads);
  library_->llama_attach_threadpool(context.get(), threads.get(), nullptr);
  std::this_thread::sleep_for(std::chrono::seconds(command_.delay));
  if (command_.warmup) {
    if (test.n_prompt > 0) decode_prompt(*context, test.n_prompt, test);
    if (test.n_gen > 0) decode_output(*context, 1);
  }
  for (int i = 0; i < command_.repetitions; ++i) out.samples.push_back(time_once(*context, test));

  out.buffers = library_.buffer_sizes().buffers();
  const auto after = library_.gpu_memory();
  for (std::size_t i = 0; i < after.size(); ++i)
    out.gpus.push_back({after[i].name, before_[i].free, after[i].free, after[i].total});
  return out;
}

}  // namespace llama_bench
