// Models from files: round trips of the catalogue's shapes, and wrong metadata.

#include "engine/gguf/model/read_model.hpp"

#include <cmath>

#include "core/catalogue/catalogue.hpp"
#include "core/model/kv_bytes.hpp"
#include "engine/gguf/model/read_spec.hpp"
#include "engine/gguf/model/read_table.hpp"
#include "engine/tokenizer/file_vocabulary.hpp"
#include "tests/core/model_fixtures.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"
#include "tests/paths.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;
using test::Folder;

ModelFile read_back(const ModelSpec& spec, std::string_view mix) {
  const Folder folder;
  write_sparse(header_of(spec, mix), folder / "m.gguf");
  auto file = read_model_file(folder / "m.gguf");
  INFO(spec.id << ": " << error_of(file));
  REQUIRE(file.ok());
  return *std::move(file);
}

void check_same(const ModelSpec& a, const ModelSpec& b) {
  CHECK(a.architecture == b.architecture);
  CHECK(a.layers == b.layers);
  CHECK(a.hidden == b.hidden);
  CHECK(a.heads == b.heads);
  CHECK(a.kv_heads == b.kv_heads);
  CHECK(a.head_dim == b.head_dim);
  CHECK(a.ffn == b.ffn);
  CHECK(a.vocabulary == b.vocabulary);
  CHECK(a.context == b.context);
  CHECK(a.tied_embeddings == b.tied_embeddings);
  CHECK(a.qkv_bias == b.qkv_bias);
  CHECK(a.output_bias == b.output_bias);
  CHECK(a.qk_norm == b.qk_norm);
  CHECK(a.qk_norm_wide == b.qk_norm_wide);
  CHECK(a.fused_qkv == b.fused_qkv);
  CHECK(a.fused_gate_up == b.fused_gate_up);
  CHECK(a.gated_ffn == b.gated_ffn);
  CHECK(a.ffn_bias == b.ffn_bias);
  CHECK(a.norm_bias == b.norm_bias);
  CHECK(a.rope_freqs == b.rope_freqs);
  CHECK(a.rope_factors == b.rope_factors);
  CHECK(a.attention_sinks == b.attention_sinks);
  CHECK(a.nextn_layers == b.nextn_layers);
  CHECK(a.window.has_value() == b.window.has_value());
  CHECK(a.moe.has_value() == b.moe.has_value());
  CHECK(a.mla.has_value() == b.mla.has_value());
  if (!a.moe || !b.moe) return;
  CHECK(a.moe->experts == b.moe->experts);
  CHECK(a.moe->experts_used == b.moe->experts_used);
  CHECK(a.moe->expert_ffn == b.moe->expert_ffn);
  CHECK(a.moe->shared_ffn == b.moe->shared_ffn);
  CHECK(a.moe->shared_gate == b.moe->shared_gate);
  CHECK(a.moe->dense_layers == b.moe->dense_layers);
  CHECK(a.moe->every == b.moe->every);
  CHECK(a.moe->router_bias == b.moe->router_bias);
  CHECK(a.moe->expert_bias == b.moe->expert_bias);
}

// A file of the tiny model with changed keys, and its error.
class Lie {
 public:
  explicit Lie(const ModelSpec& spec = tiny("llama")) : spec_(spec) {}

  ModelSpec& metadata() { return spec_; }
  template <class T>
  Lie& set(const std::string& key, const T& value) {
    header_.set(key, value);
    return *this;
  }
  std::string error(const ModelSpec& true_spec = tiny("llama")) {
    set_metadata(spec_, header_);
    add_tensors(table_of(true_spec, "F32"), header_);
    const std::string bytes = with_zeros(header_);
    const auto file = file_of(bytes);
    REQUIRE(file.ok());
    const std::string said = error_of(load_model(*file));
    INFO(said);
    CHECK(said.rfind("x.gguf: ", 0) == 0);
    return said;
  }

 private:
  ModelSpec spec_;
  GgufHeader header_;
};

// What is said of the tiny model whose metadata were changed.
template <class Change>
std::string error_when(Change change) {
  Lie lie;
  change(lie.metadata());
  return lie.error();
}

}  // namespace

TEST_CASE("A file of a model of the catalogue gives that model", "[gguf]") {
  const Catalogue catalogue(test::source_dir());
  int models = 0;
  for (const std::string& id : catalogue.ids("models")) {
    const auto spec = catalogue.model(id);
    REQUIRE(spec.ok());
    // Files of these give figures layer by layer, or have recurrent layers, or tensors that a table
    // lacks.
    const bool some_index =
        spec->indexer && (spec->indexer->first_layer > 0 || !spec->indexer->layers.empty());
    const bool irregular = spec->recurrent || !spec->pattern.empty() || spec->layer_embedding > 0 ||
                           some_index || (spec->window && spec->window->full_head_dim > 0);
    if (irregular) continue;
    INFO(id);
    const TensorTable expected = table_of(*spec, "Q4_K_M");
    const ModelFile file = read_back(*spec, "Q4_K_M");
    check_same(file.spec, *spec);
    CHECK(file.tensors.tensors.size() == expected.tensors.size());
    CHECK(file.tensors.bytes() == expected.bytes());
    CHECK(file.tensors.elements() == expected.elements());
    CHECK(file.tensors.active_bytes(file.spec) == expected.active_bytes(*spec));
    CHECK(file.tensors.head == expected.head);
    CHECK(file.tensors.embedding == expected.embedding);
    CHECK(file.tensors.speculation == expected.speculation);
    CHECK(kv_bytes(file.spec, 100'000, {}) == kv_bytes(*spec, 100'000, {}));
    ++models;
  }
  CHECK(models > 60);
}

TEST_CASE("Layers with tensors of an indexer keep its keys", "[gguf]") {
  ModelSpec spec = rigcast::fixtures::deepseek_v2_lite();
  spec.architecture = "glm-dsa";
  spec.indexer = SparseIndexer{};
  spec.indexer->key_dim = 128;
  spec.layers = 5;
  spec.vocabulary = 256;  // what keeps no keys is small: the file has all of its bytes
  spec.ffn = spec.moe->expert_ffn = spec.moe->shared_ffn = 256;
  spec.moe->experts = 8;
  GgufHeader header = header_of(spec, "Q8_0");
  const std::uint64_t shape[] = {std::uint64_t(spec.hidden), 128};
  for (const char* name : {"blk.0.indexer.attn_k.weight", "blk.4.indexer.attn_k.weight"})
    header.add_tensor(name, QuantFormat::kQ8_0, shape);
  const std::string bytes = with_zeros(header);
  const auto file = file_of(bytes);
  REQUIRE(file.ok());
  const auto read = read_spec(*file);
  if (!read) FAIL(read.error().text());
  REQUIRE(read->indexer);
  CHECK(read->indexer->layers == std::vector<int>{0, 4});
  CHECK(kv_bytes(*read, 1000, {}) == 1000.0 * (5 * 1152 + 2 * 256));
}

TEST_CASE("Layers of a file weigh what layers of the formula do", "[gguf]") {
  for (const ModelSpec& spec :
       {rigcast::fixtures::llama_3_1_8b(), rigcast::fixtures::llama_3_2_3b(),
        rigcast::fixtures::qwen2_5_7b(), rigcast::fixtures::qwen3_8b(),
        rigcast::fixtures::mixtral_8x7b(), rigcast::fixtures::qwen3_30b_a3b()}) {
    const TensorTable expected = table_of(spec, "Q4_K_M");
    const ModelFile file = read_back(spec, "Q4_K_M");
    CHECK(file.tensors.layers == expected.layers);
    CHECK(file.tensors.head_is_embedding == expected.head_is_embedding);
    CHECK(file.tensors.tensors.front().name == "token_embd.weight");
    for (std::size_t i = 0; i < expected.tensors.size(); ++i) {
      const auto same =
          std::ranges::find(file.tensors.tensors, expected.tensors[i].name, &Tensor::name);
      REQUIRE(same != file.tensors.tensors.end());
      CHECK(same->role == expected.tensors[i].role);
      CHECK(same->layer == expected.tensors[i].layer);
      CHECK(same->shape == expected.tensors[i].shape);
      CHECK(same->format == expected.tensors[i].format);
      CHECK(same->bytes == expected.tensors[i].bytes);
    }
  }
}

TEST_CASE("The order of tensors in a file does not matter", "[gguf]") {
  const ModelSpec spec = tiny("llama");
  const TensorTable expected = table_of(spec, "F16");
  TensorTable reversed = expected;
  std::ranges::reverse(reversed.tensors);
  GgufHeader header;
  set_metadata(spec, header);
  add_tensors(reversed, header);
  const std::string bytes = with_zeros(header);
  const auto file = file_of(bytes);
  REQUIRE(file.ok());
  const auto table = read_tensor_table(*file, spec);
  REQUIRE(table.ok());
  CHECK(table->tensors.front().name == "token_embd.weight");
  CHECK(table->layers == expected.layers);
  CHECK(load_model(*file).ok());
}

TEST_CASE("A file's mix has the name that it says, unless its bytes say otherwise", "[gguf]") {
  const auto named = [](const char* mix, std::uint32_t file_type) {
    const Folder folder;
    GgufHeader header = header_of(rigcast::fixtures::llama_3_2_3b(), mix);
    header.set("general.file_type", file_type);
    write_sparse(header, folder / "m.gguf");
    const auto file = read_model_file(folder / "m.gguf");
    REQUIRE(file.ok());
    return file->quant;
  };
  CHECK(named("Q4_K_M", 15) == "Q4_K_M");
  CHECK(named("Q4_K_S", 14) == "Q4_K_S");
  CHECK(named("Q4_K_M", 15 + 1024) == "Q4_K_M");
  CHECK(named("BF16", 32) == "BF16");
  CHECK(named("F16", 15) == "F16");      // a lie
  CHECK(named("Q8_0", 9999) == "Q8_0");  // unheard of
  CHECK(read_back(rigcast::fixtures::llama_3_1_8b(), "Q5_K_M").quant == "Q5_K");
  CHECK(read_back(rigcast::fixtures::qwen2_5_0_5b(), "Q4_K_M").quant == "Q5_0");
}

TEST_CASE("Names come from the file, fit to be printed", "[gguf]") {
  const auto name_of = [](const std::string& name) {
    const Folder folder;
    ModelSpec spec = tiny("llama");
    spec.name = name;
    write_sparse(header_of(spec, "F32"), folder / "My Model.gguf");
    const auto file = read_model_file(folder / "My Model.gguf");
    REQUIRE(file.ok());
    CHECK(file->spec.id == "my-model");
    CHECK(file->spec.source == "My Model.gguf");
    return file->spec.name;
  };
  CHECK(name_of("Llama 3.1 8B") == "Llama 3.1 8B");
  CHECK(name_of("a\x1b[31m\xff") == "a [31m?");
  CHECK(name_of("") == "My Model");
  CHECK(name_of(" \n") == "My Model");
}

TEST_CASE("Hyperparameters come from the file, or are what such files usually have", "[gguf]") {
  const auto read = [](const std::string& architecture, auto set) {
    const ModelSpec spec = tiny(architecture);
    GgufHeader header = header_of(spec, "F32");
    set(header);
    const std::string bytes = with_zeros(header);
    const auto file = file_of(bytes);
    REQUIRE(file.ok());
    return read_hyperparameters(*file, spec);
  };
  const auto plain = read("llama", [](GgufHeader&) {});
  REQUIRE(plain.ok());
  CHECK(plain->norm_eps == 1e-5f);
  CHECK(plain->rope_base == 10000.0f);  // what a file without the key means
  CHECK(plain->rope_dims == 8);
  CHECK(plain->rope_pairs == RopePairs::kInterleaved);
  CHECK(plain->rope_scale == 1.0f);
  const auto qwen = read("qwen2", [](GgufHeader& h) {
    h.set("qwen2.attention.layer_norm_rms_epsilon", 1e-6f);
    h.set("qwen2.rope.freq_base", 1e6f);
    h.set("qwen2.rope.scaling.type", "linear");
    h.set("qwen2.rope.scaling.factor", 4.0f);
  });
  REQUIRE(qwen.ok());
  CHECK(qwen->norm_eps == 1e-6f);
  CHECK(qwen->rope_base == 1e6f);
  CHECK(qwen->rope_pairs == RopePairs::kNeox);
  CHECK(qwen->rope_scale == 0.25f);
  const auto old = read("llama", [](GgufHeader& h) { h.set("llama.rope.scale_linear", 2.0f); });
  REQUIRE(old.ok());
  CHECK(old->rope_scale == 0.5f);
  const auto both = read("llama", [](GgufHeader& h) {
    h.set("llama.rope.scale_linear", 2.0f);
    h.set("llama.rope.scaling.factor", 4.0f);
  });
  REQUIRE(both.ok());
  CHECK(both->rope_scale == 0.25f);
  const auto untyped =
      read("llama", [](GgufHeader& h) { h.set("llama.rope.scaling.factor", 8.0f); });
  REQUIRE(untyped.ok());
  CHECK(untyped->rope_scale == 0.125f);
  CHECK(contains(
      error_of(read("llama", [](GgufHeader& h) { h.set("llama.rope.scaling.type", "dynamic"); })),
      "not executed"));
  CHECK(
      contains(error_of(read("llama", [](GgufHeader& h) { h.set("llama.rope.freq_base", -1.0f); })),
               "\"llama.rope.freq_base\" is -1"));
  CHECK(contains(
      error_of(read("qwen3moe",
                    [](GgufHeader& h) { h.set("qwen3moe.expert_gating_func", std::uint32_t(3)); })),
      "\"qwen3moe.expert_gating_func\" is 3, which is not executed"));
}

TEST_CASE("Keys that would change the result are not executed, and still forecast", "[gguf]") {
  const auto error_with = [](const std::string& key, auto value) {
    GgufHeader header = header_of(tiny("llama"), "F32");
    header.set(key, value);
    const std::string bytes = with_zeros(header);
    const auto file = file_of(bytes);
    REQUIRE(file.ok());
    CHECK(read_spec(*file).ok());
    return error_of(load_model(*file));
  };
  CHECK(
      contains(error_with("llama.rope.scaling.yarn_attn_factor", 0.5f),
               "x.gguf: \"llama.rope.scaling.yarn_attn_factor\" is 0.5, which is not executed: it "
               "would scale queries and keys"));
  CHECK(
      contains(error_with("llama.attention.causal", false), "\"llama.attention.causal\" is false"));
  CHECK(contains(error_with("llama.attention.scale", 0.5f), "scale scores of attention"));
  CHECK(contains(error_with("llama.logit_scale", 2.0f), "scale the logits"));
  CHECK(contains(error_with("llama.embedding_scale", 12.0f), "scale the embedding"));
  CHECK(contains(error_with("llama.residual_scale", 0.22f), "scale what layers add"));
  CHECK(contains(error_with("llama.rope.dimension_sections", std::vector<std::int32_t>{2, 1, 1}),
                 "\"llama.rope.dimension_sections\" is [3 i32 numbers]"));
  CHECK(contains(error_with("llama.of_tomorrow", "x"), "\"llama.of_tomorrow\" is \"x\""));

  CHECK(contains(error_with("llama.final_logit_softcapping", 30.0f), "bound the logits"));

  CHECK(error_with("llama.expert_group_count", std::uint32_t(8)).empty());
  CHECK(error_with("llama.expert_group_used_count", std::uint32_t(0)).empty());
  CHECK(error_with("llama.attn_logit_softcapping", 0.0f).empty());
  CHECK(error_with("llama.final_logit_softcapping", 0.0f).empty());
  CHECK(error_with("llama.rope.scaling.attn_factor", 0.5f).empty());
  CHECK(error_with("llama.attention.causal", true).empty());
  CHECK(error_with("llama.attention.scale", 1.0f / std::sqrt(8.0f)).empty());
  CHECK(error_with("llama.logit_scale", 1.0f).empty());
  CHECK(error_with("llama.use_parallel_residual", false).empty());
  CHECK(error_with("llama.vocab_size", std::uint32_t(40)).empty());
  CHECK(error_with("llama.tensor_data_layout", "Meta AI original pth").empty());
  CHECK(error_with("llama.rope.scaling.original_context_length", std::uint32_t(512)).empty());
  CHECK(error_with("llama.rope.scaling.finetuned", false).empty());
  CHECK(error_with("quantize.imatrix.file", "x").empty());
  CHECK(error_with("qwen3.logit_scale", 2.0f).empty());  // of another architecture
}

TEST_CASE("Figures by layer are read if they are all the same", "[gguf]") {
  const auto read = [](const std::vector<std::int32_t>& kv_heads) {
    ModelSpec spec = tiny("gemma");
    GgufHeader header;
    header.set("general.architecture", "gemma");
    header.set("gemma.block_count", std::uint32_t(2));
    header.set("gemma.context_length", std::uint32_t(512));
    header.set("gemma.embedding_length", std::uint32_t(32));
    header.set("gemma.feed_forward_length", std::vector<std::int32_t>{64, 64});
    header.set("gemma.attention.head_count", std::uint32_t(4));
    header.set("gemma.attention.head_count_kv", kv_heads);
    add_tensors(table_of(spec, "F32"), header);
    const std::string bytes = with_zeros(header);
    const auto file = file_of(bytes);
    REQUIRE(file.ok());
    auto out = read_spec(*file);
    if (out) CHECK(out->ffn == 64);
    return out;
  };
  const auto equal = read({2, 2});
  REQUIRE(equal.ok());
  CHECK(equal->kv_heads == 2);
  CHECK(contains(error_of(read({2, 4})), "\"gemma.attention.head_count_kv\" differs from layer"));
  CHECK_FALSE(read({}).ok());
}

TEST_CASE("Architectures that are not executed are still forecast", "[gguf]") {
  ModelSpec spec = tiny("gemma3n");
  spec.norms_per_layer = 4;
  spec.tied_embeddings = true;
  spec.window = SlidingWindow{};
  spec.window->tokens = 128;
  spec.window->full_every = 2;
  const std::string bytes = with_zeros(header_of(spec, "F16"));
  const auto file = file_of(bytes);
  REQUIRE(file.ok());
  const auto read = read_spec(*file);
  REQUIRE(read.ok());
  CHECK(read->norms_per_layer == 4);
  CHECK(read->window->full_every == 2);
  CHECK(read_tensor_table(*file, *read).ok());
  CHECK(contains(error_of(load_model(*file)), "\"gemma3n\" are not executed"));
}

TEST_CASE("A window's pattern is a period", "[gguf]") {
  const auto full_every = [](auto pattern) {
    ModelSpec spec = tiny("x");
    spec.layers = 6;
    GgufHeader header = header_of(spec, "F32");
    header.set("x.attention.sliding_window", std::uint32_t(64));
    header.set("x.attention.sliding_window_pattern", pattern);
    const std::string bytes = with_zeros(header);
    const auto file = file_of(bytes);
    REQUIRE(file.ok());
    const auto read = read_spec(*file);
    return !read ? -2 : read->window ? read->window->full_every : -1;
  };
  CHECK(full_every(std::uint32_t(3)) == 3);
  CHECK(full_every(std::uint32_t(0)) == 0);
  CHECK(full_every(std::uint32_t(1)) == -1);
  CHECK(full_every(std::vector<bool>{true, true, false, true, true, false}) == 3);
  CHECK(full_every(std::vector<bool>{true, true, true, true, true, true}) == 0);
  CHECK(full_every(std::vector<bool>{false, true, true, true, true, true}) == -2);
  CHECK(full_every("3") == -2);
}

TEST_CASE("Metadata that lie are refused with what they say", "[gguf]") {
  CHECK(contains(error_when([](ModelSpec& m) { m.heads = 0; }),
                 "\"llama.attention.head_count\" is 0, expected 1 to 65536"));
  CHECK(contains(error_when([](ModelSpec& m) { m.kv_heads = 0; }), "head_count_kv\" is 0"));
  CHECK(contains(error_when([](ModelSpec& m) { m.kv_heads = 8; }), "expected 1 to 4"));
  CHECK(contains(error_when([](ModelSpec& m) { m.kv_heads = 3; }), "no multiple of 3 KV heads"));
  CHECK(contains(error_when([](ModelSpec& m) { m.layers = 0; }), "block_count\" is 0"));
  CHECK(contains(error_when([](ModelSpec& m) { m.layers = 3; }), "layer 2 of 3 has no tensors"));
  CHECK(contains(error_when([](ModelSpec& m) { m.layers = 10'000; }), "has no tensors"));
  CHECK(
      contains(error_when([](ModelSpec& m) { m.layers = 2'000'000'000; }), "expected 1 to 10000"));
  CHECK(contains(error_when([](ModelSpec& m) { m.layers = 1; }), "a model of 1 layers"));
  CHECK(
      contains(error_when([](ModelSpec& m) { m.hidden = 64; }), "token_embd.weight has the shape"));
  CHECK(contains(error_when([](ModelSpec& m) { m.hidden = 0; }), "embedding_length\" is 0"));
  CHECK(contains(error_when([](ModelSpec& m) { m.head_dim = 16; }), "expected 32 x 32"));
  CHECK(contains(error_when([](ModelSpec& m) { m.ffn = 65; }), "\"blk.0.ffn_gate.weight\""));
  CHECK(contains(error_when([](ModelSpec& m) { m.context = 0; }), "context_length\" is 0"));
  CHECK(contains(error_when([](ModelSpec& m) { m.architecture = "Llama!"; }), "a word of"));
  CHECK(contains(error_when([](ModelSpec& m) { m.architecture = ""; }), "a word of"));
  CHECK(contains(error_when([](ModelSpec& m) {
                   m.ffn = 0;
                   m.moe = MixtureOfExperts{4, 2, 32};
                 }),
                 "layer 0 has no experts, and the metadata say otherwise"));
}

TEST_CASE("Missing, odd and additional tensors are refused by name", "[gguf]") {
  const auto without = [](const std::string& name) {
    TensorTable table = table_of(tiny("llama"), "F32");
    const auto removed =
        std::erase_if(table.tensors, [&](const Tensor& t) { return t.name == name; });
    REQUIRE(removed == 1);
    GgufHeader header;
    set_metadata(tiny("llama"), header);
    add_tensors(table, header);
    const std::string bytes = with_zeros(header);
    return error_of(read_spec(*file_of(bytes)));
  };
  CHECK(contains(without("blk.1.attn_q.weight"), "there is no \"blk.1.attn_q.weight\""));
  CHECK(contains(without("blk.0.ffn_norm.weight"), "there is no \"blk.0.ffn_norm.weight\""));
  CHECK(contains(without("output_norm.weight"), "there is no \"output_norm.weight\""));
  CHECK(contains(without("token_embd.weight"), "there is no token_embd.weight"));

  const auto with = [](const std::string& name, std::vector<std::uint64_t> shape) {
    GgufHeader header = header_of(tiny("llama"), "F32");
    header.add_tensor(name, QuantFormat::kF32, shape);
    const std::string bytes = with_zeros(header);
    return error_of(load_model(*file_of(bytes)));
  };
  CHECK(contains(with("blk.0.ffn_gate.0.weight", {32, 64}), "one matrix of one expert"));
  CHECK(contains(with("blk.0.attn_sub_norm.weight", {32}), "has no place in this architecture"));
  CHECK(contains(with("blk.0.ssm_a", {32}), "recurrent layers are not understood"));
  CHECK(contains(with("blk.7.attn_q.weight", {32, 32}), "a model of 2 layers"));
  CHECK(with("blk.0.attn_rot_embd.weight", {32}).empty());
  // It has its place; its data are zeros here.
  CHECK(contains(with("rope_freqs.weight", {4}), "element 0 of \"rope_freqs.weight\" is 0"));
  CHECK(contains(with("rope_freqs.weight", {5}), "\"rope_freqs.weight\" has the shape 5"));
}

TEST_CASE("More metadata than any file has are refused before they are read", "[gguf]") {
  Raw raw;
  const std::string bytes = raw.begin(0, 1'000'001).zeros(16'000'000).bytes;
  CHECK(contains(error_of(part_of(bytes)), "1000001 metadata, at most 1000000 are read"));
}

TEST_CASE("A file that says so, or has a vocabulary of another kind", "[gguf][tokenizer]") {
  const auto read = [](const char* kind, auto types) {
    GgufHeader header = header_of(tiny("llama"), "F32");
    header.set("tokenizer.ggml.model", kind);
    header.set("tokenizer.ggml.tokens", std::vector<std::string>{"a"});
    header.set("tokenizer.ggml.token_type", types);
    const std::string bytes = with_zeros(header);
    return file_tokenizer(*file_of(bytes));
  };
  using Types = std::vector<std::int32_t>;
  for (const char* none : {"no_vocab", "none"}) {
    const auto tokenizer = read(none, Types{1});
    REQUIRE(tokenizer.ok());
    CHECK_FALSE(tokenizer->has_value());
  }
  CHECK(contains(error_of(read("rwkv", Types{1})), "of the kind \"rwkv\" is not understood"));
  CHECK(read("gpt2", Types{1}).ok());
  for (const double type : {std::nan(""), 1e300, -1e300, 1.5})
    CHECK(contains(error_of(read("gpt2", std::vector<double>{type})),
                   "tokenizer.ggml.token_type is not an array of whole numbers"));
  CHECK(contains(error_of(read("gpt2", Types{0})), "types are 1 to 6"));
}

TEST_CASE("More tokens than rows of the embedding are refused", "[gguf]") {
  Lie lie;
  lie.set("tokenizer.ggml.tokens", std::vector<std::string>(41, "t"));
  CHECK(contains(lie.error(), "41 tokens and an embedding for 40"));
}

TEST_CASE("A format that is listed only has neither forecast nor run", "[gguf]") {
  const auto file_with = [](std::uint32_t type, std::size_t row_bytes) {
    Raw raw;
    raw.begin(1, 0).tensor("token_embd.weight", {256, 4}, type, 0);
    return raw.pad().zeros(4 * row_bytes).bytes;
  };
  const std::string listed_bytes = file_with(41, 36), known_bytes = file_with(16, 66);
  const auto listed = file_of(listed_bytes), known = file_of(known_bytes);
  REQUIRE(listed.ok());
  REQUIRE(known.ok());
  ModelSpec spec = tiny("llama");
  CHECK(contains(error_of(read_tensor_table(*listed, spec)),
                 "tensor \"token_embd.weight\" is in Q1_0, which forecasts know not"));
  CHECK(contains(error_of(named_tensors(*listed)), "is in Q1_0"));
  CHECK(contains(error_of(named_tensors(*listed)), "for which the engine has no code"));
  CHECK(read_tensor_table(*known, spec)->bytes() == 4 * 66);
  CHECK(named_tensors(*known)->front().format == QuantFormat::kIQ2_XXS);
}

}  // namespace rigcast::engine
