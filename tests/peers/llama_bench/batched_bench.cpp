#include "tests/peers/llama_bench/batched_bench.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace llama_bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int most(const std::vector<int>& values) { return *std::ranges::max_element(values); }

}  // namespace

// Tokens of several sequences, decoded in pieces of n_batch.
class BatchedBench::Batch {
 public:
  void add(llama_h::Token token, std::int32_t position, std::int32_t sequence, bool has_logits) {
    tokens_.push_back(token);
    positions_.push_back(position);
    sequences_.push_back(sequence);
    logits_.push_back(has_logits);
  }
  int size() const { return int(tokens_.size()); }
  /// Tokens from `begin` on, at most `n` of them; refers to this.
  llama_h::Batch piece(int begin, int n) {
    one_.assign(tokens_.size(), 1);
    sequence_of_.clear();
    for (std::int32_t& sequence : sequences_) sequence_of_.push_back(&sequence);
    return {std::min(n, size() - begin), tokens_.data() + begin, nullptr,
            positions_.data() + begin,   one_.data() + begin,    sequence_of_.data() + begin,
            logits_.data() + begin};
  }

 private:
  std::vector<llama_h::Token> tokens_;
  std::vector<std::int32_t> positions_, sequences_, one_;
  std::vector<std::int32_t*> sequence_of_;
  std::vector<std::int8_t> logits_;
};

BatchedBench::BatchedBench(Library& library, const BatchedCommand& command)
    : library_(library),
      command_(command),
      model_(nullptr, nullptr),
      threads_(library.make_threads(command.threads)),
      threads_batch_(library.make_threads(command.threads_batch)),
      context_(nullptr, nullptr) {
  const auto begin = Clock::now();
  model_ = library.load(command.model);
  load_ns_ = std::int64_t(1e9 * seconds_since(begin));
  context_ = library.make_context(
      *model_, command.context, {command.cache_tokens, most(command.n_pl), command.cache_unified});
  library->llama_set_n_threads(context_.get(), command.threads, command.threads_batch);
  library->llama_attach_threadpool(context_.get(), threads_.get(), threads_batch_.get());
  warm_up();
}

llama_h::Token BatchedBench::token() {
  const llama_h::Vocab* vocab = library_->llama_model_get_vocab(model_.get());
  return llama_h::Token(random_() % unsigned(library_->llama_vocab_n_tokens(vocab)));
}

// 16 tokens of one sequence, as llama-batched-bench has it.
void BatchedBench::warm_up() {
  Batch batch;
  const int tokens = int(std::min<std::int64_t>(16, cache_tokens()));
  for (int i = 0; i < tokens; ++i) batch.add(token(), i, 0, false);
  decode(batch, true);
}

std::int64_t BatchedBench::cache_tokens() const { return library_->llama_n_ctx(context_.get()); }

// A shared prompt is copied into each sequence's part where sequences have parts.
std::int64_t BatchedBench::cells_needed(int pp, int tg, int pl) const {
  const bool once = command_.prompt_shared && command_.cache_unified;
  return (once ? 1 : std::int64_t(pl)) * pp + std::int64_t(pl) * tg;
}

void BatchedBench::decode(Batch& batch, bool wait_for_each) {
  for (int begin = 0; begin < batch.size(); begin += command_.context.n_batch) {
    const std::int32_t code =
        library_->llama_decode(context_.get(), batch.piece(begin, command_.context.n_batch));
    if (code != 0)
      throw Failure("the library cannot decode a batch: llama_decode returned " +
                    std::to_string(code) + (code == -2 ? ", out of memory" : ""));
    if (wait_for_each) library_->llama_synchronize(context_.get());
  }
}

// Copies between parts of the cache are made with the next batch: one token, which is taken back.
void BatchedBench::share_prompt(int pp, int pl) {
  llama_h::Memory* memory = library_->llama_get_memory(context_.get());
  for (int i = 1; i < pl; ++i) library_->llama_memory_seq_cp(memory, 0, i, -1, -1);
  if (command_.cache_unified) return;
  Batch batch;
  batch.add(token(), pp, 0, true);
  decode(batch, true);
  library_->llama_memory_seq_rm(memory, 0, pp, -1);
}

BatchedResult BatchedBench::run(int pp, int tg, int pl) {
  BatchedResult out{pp, tg, pl};
  out.cells = cells_needed(pp, tg, pl);
  const int prompts = command_.prompt_shared ? 1 : pl;
  out.prompt_tokens = std::int64_t(prompts) * pp;
  Batch batch;
  for (int sequence = 0; sequence < prompts; ++sequence)
    for (int i = 0; i < pp; ++i) batch.add(token(), i, sequence, i + 1 == pp);

  library_->llama_memory_clear(library_->llama_get_memory(context_.get()), false);
  auto begin = Clock::now();
  decode(batch, false);
  library_->llama_synchronize(context_.get());
  out.prompt_s = seconds_since(begin);
  if (command_.prompt_shared) share_prompt(pp, pl);

  begin = Clock::now();
  for (int i = 0; i < tg; ++i) {
    Batch step;
    for (int sequence = 0; sequence < pl; ++sequence) step.add(token(), pp + i, sequence, true);
    decode(step, true);
  }
  out.output_s = seconds_since(begin);
  return out;
}

std::string batched_line(const BatchedResult& r, const BatchedCommand& c, const BatchedBench& bench,
                         const Library& library) {
  Json buffers = Json::array();
  for (const Buffer& b : library.buffer_sizes().buffers())
    buffers.push_back({{"name", b.name}, {"kind", b.kind}, {"bytes", b.bytes}});
  return Json{
      {"n_kv_max", bench.cache_tokens()},
      {"n_batch", c.context.n_batch},
      {"n_ubatch", c.context.n_ubatch},
      {"flash_attn", c.context.flash_attn},
      {"is_pp_shared", int(c.prompt_shared)},
      {"n_gpu_layers", c.model.gpu_layers.value_or(library.default_gpu_layers())},
      {"n_threads", c.threads},
      {"n_threads_batch", c.threads_batch},
      {"pp", r.pp},
      {"tg", r.tg},
      {"pl", r.pl},
      {"n_kv", r.cells},
      {"t_pp", r.prompt_s},
      {"speed_pp", r.prompt_tokens_per_s()},
      {"t_tg", r.output_s},
      {"speed_tg", r.output_tokens_per_s()},
      {"t", r.prompt_s + r.output_s},
      {"speed", r.tokens_per_s()},
      {"library",
       {{"load_ns", bench.load_ns()}, {"gpu_info", library.gpu_names()}, {"buffers", buffers}}}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace llama_bench
