// A prompt that is given as text has a length when it is tokenised.
#include "validation/runs/prompt_length.hpp"

#include "engine/kv/kv_eviction.hpp"
#include "tests/catch.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"
#include "tests/engine/toy_backend.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using namespace rigcast::validation;

namespace {

// Before the text is tokenised it counts as one token.
Workload unread() {
  Workload w;
  w.prompt_tokens = 1;
  w.output_tokens = 128;
  w.context = 4096;
  return w;
}

}  // namespace

TEST_CASE("The prompt's length decides for which batches a cache is evicted", "[validation][kv]") {
  Scenario s;
  s.kv.policy = KvPolicy::kPaged;
  s.settings.ubatch = 512;
  s.workload = unread();
  CHECK(engine::kv_eviction_of(s)->max_batch_tokens == 1);
  REQUIRE_FALSE(set_prompt_length(s.workload, 3000, {}));
  CHECK(engine::kv_eviction_of(s)->max_batch_tokens == 512);
  CHECK(engine::kv_eviction_of(s)->prompt_end == 3000);
}

TEST_CASE("A prompt and its answer fit into the context", "[validation]") {
  Workload w = unread();
  CHECK_FALSE(set_prompt_length(w, 4096 - 127, {}));
  CHECK(w.output_tokens == 128);
  const auto error = set_prompt_length(w, 4096 - 126, {});
  REQUIRE(error);
  CHECK(error->message.find("3970 tokens and an output of 128") != std::string::npos);
  ExecuteOptions fill;
  fill.fill_context = true;
  w.output_tokens = 4095;
  CHECK_FALSE(set_prompt_length(w, 4000, fill));
  CHECK(w.output_tokens == 96);
}

TEST_CASE("A text's length is read before a GPU's layers are counted", "[validation]") {
  const test::Folder folder;
  auto header = engine::fixtures::header_of(engine::fixtures::tiny("llama"), "F16");
  engine::fixtures::set_tiny_vocabulary(header);
  header.set("tokenizer.ggml.add_bos_token", false);
  header.set("tokenizer.ggml.add_space_prefix", false);
  engine::fixtures::write_sparse(header, folder / "x.gguf");
  const engine::EngineBackend toy = engine::fixtures::toy_backend();
  ExecuteOptions options;
  options.backend = &toy;
  options.prompt = "EFGH";
  Scenario s;
  s.model_file = folder / "x.gguf";
  s.workload = unread();
  const auto length = [&](const Scenario& given) {
    Scenario read = given;
    if (const auto error = read_prompt_length(read, options)) FAIL(error->text());
    return read.workload.prompt_tokens;
  };
  CHECK(length(s) == 4);
  s.placement.gpu_layers = 1;
  CHECK(length(s) == 1);  // decides nothing: the text is read with the weights
  s.kv.policy = KvPolicy::kPaged;
  CHECK(length(s) == 4);
  s.placement.gpu_layers.reset();
  options.backend = &engine::cpu_backend();
  CHECK(length(s) == 1);
}
