#include "core/model/tensor_table.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/core/model_fixtures.hpp"
#include "tests/paths.hpp"

namespace rigcast {
namespace {

TensorTable table_of(const ModelSpec& model, std::string_view mix_name) {
  const auto mix = QuantMix::from_name(mix_name);
  REQUIRE(mix.ok());
  auto table = make_tensor_table(model, *mix);
  REQUIRE(table.ok());
  return *std::move(table);
}

std::uint64_t bytes_of(const ModelSpec& model, std::string_view mix) {
  return table_of(model, mix).bytes();
}

const Tensor* find(const TensorTable& table, std::string_view name) {
  const auto found = std::ranges::find(table.tensors, name, &Tensor::name);
  return found == table.tensors.end() ? nullptr : &*found;
}

const Tensor& tensor(const TensorTable& table, std::string_view name) {
  const Tensor* found = find(table, name);
  INFO("tensor " << name);
  REQUIRE(found != nullptr);
  return *found;
}

struct FormatSum {
  int tensors = 0;
  std::uint64_t bytes = 0;
};

FormatSum sum_of(const TensorTable& table, QuantFormat f) {
  FormatSum sum;
  for (const Tensor& t : table.tensors) {
    if (t.format != f) continue;
    ++sum.tensors;
    sum.bytes += t.bytes;
  }
  return sum;
}

std::uint64_t sum_of_groups(const TensorTable& table) {
  std::uint64_t sum = table.embedding.bytes() + table.head.bytes() + table.speculation.bytes();
  for (const LayerWeights& l : table.layers) sum += l.bytes();
  return table.head_is_embedding ? sum - table.tensors.front().bytes : sum;
}

}  // namespace

// Published file size less its metadata, where a file was at hand; else the formula by hand.
TEST_CASE("Tensor bytes of Llama-shaped models are those of the published files", "[tensors]") {
  using namespace fixtures;
  CHECK(bytes_of(mistral_7b_v0_1(), "Q4_0") == 4'108'181'504);
  CHECK(bytes_of(mistral_7b_v0_1(), "Q4_K_M") == 4'367'704'064);
  CHECK(bytes_of(mistral_7b_v0_1(), "Q5_K_M") == 5'130'674'176);
  CHECK(bytes_of(mistral_7b_v0_1(), "Q6_K") == 5'941'329'920);
  CHECK(bytes_of(mistral_7b_v0_1(), "Q8_0") == 7'695'122'432);
  CHECK(bytes_of(mistral_7b_v0_1(), "F16") == 14'483'996'672);
  CHECK(bytes_of(mistral_7b_v0_3(), "Q4_K_M") == 4'372'054'016);
  CHECK(bytes_of(llama_3_8b(), "Q4_K_M") == 4'912'898'048);
  CHECK(bytes_of(llama_3_8b(), "Q4_K_S") == 4'684'832'768);
  CHECK(bytes_of(llama_3_8b(), "BF16") == 16'061'054'976);
  CHECK(bytes_of(llama_3_1_8b(), "Q4_0") == 4'653'375'744);
  CHECK(bytes_of(llama_3_1_8b(), "Q4_K_M") == 4'912'898'304);
  CHECK(bytes_of(llama_3_1_8b(), "Q5_K_M") == 5'725'151'488);
  CHECK(bytes_of(llama_3_1_8b(), "Q6_K") == 6'588'170'496);
  CHECK(bytes_of(llama_3_1_8b(), "Q8_0") == 8'532'934'912);
  CHECK(bytes_of(llama_3_1_8b(), "F16") == 16'061'055'232);
  CHECK(bytes_of(llama_3_2_3b(), "Q4_K_M") == 2'011'539'712);
  CHECK(bytes_of(llama_3_1_70b(), "Q4_K_M") == 42'512'531'712);
}

TEST_CASE("Tensor bytes of Qwen models are those of the published files", "[tensors]") {
  using namespace fixtures;
  CHECK(bytes_of(qwen2_5_7b(), "Q4_K_M") == 4'677'120'000);
  CHECK(bytes_of(qwen2_5_7b(), "Q5_K_M") == 5'438'877'696);
  CHECK(bytes_of(qwen2_5_7b(), "Q8_0") == 8'092'571'648);
  CHECK(bytes_of(qwen2_5_7b(), "F16") == 15'231'899'648);
  CHECK(bytes_of(qwen2_5_32b(), "Q4_K_M") == 19'845'357'568);
  CHECK(bytes_of(qwen3_8b(), "Q4_K_M") == 5'021'827'072);
}

TEST_CASE("Tensor bytes of mixtures of experts are those of the published files", "[tensors]") {
  CHECK(bytes_of(fixtures::mixtral_8x7b(), "Q4_K_M") == 28'447'727'616);
  CHECK(bytes_of(fixtures::qwen3_30b_a3b(), "Q4_K_M") == 18'550'716'416);
}

TEST_CASE("Files with as many tensors as published", "[tensors]") {
  using namespace fixtures;
  CHECK(table_of(llama_2_7b(), "Q4_K_M").tensors.size() == 291);
  CHECK(table_of(mistral_7b_v0_1(), "Q4_K_M").tensors.size() == 291);
  CHECK(table_of(llama_3_1_8b(), "Q4_K_M").tensors.size() == 292);
  CHECK(table_of(qwen2_5_7b(), "Q4_K_M").tensors.size() == 339);
  CHECK(table_of(qwen3_8b(), "Q4_K_M").tensors.size() == 399);
  CHECK(table_of(gpt_oss_20b(), "MXFP4").tensors.size() == 459);
}

TEST_CASE("Llama 3.1 8B Q4_K_M has 193 tensors of Q4_K, 33 of Q6_K and 66 of F32", "[tensors]") {
  const TensorTable table = table_of(fixtures::llama_3_1_8b(), "Q4_K_M");
  const FormatSum q4 = sum_of(table, QuantFormat::kQ4_K);
  const FormatSum q6 = sum_of(table, QuantFormat::kQ6_K);
  const FormatSum f32 = sum_of(table, QuantFormat::kF32);
  CHECK(q4.tensors == 193);
  CHECK(q6.tensors == 33);
  CHECK(f32.tensors == 66);
  CHECK(double(q4.bytes) == Approx(3.655e9).epsilon(0.0005));
  CHECK(double(q6.bytes) == Approx(1.257e9).epsilon(0.0005));
  CHECK(double(f32.bytes) == Approx(1.07e6).epsilon(0.005));
}

TEST_CASE("A token reads everything but the embedding, once", "[tensors]") {
  using namespace fixtures;
  const auto active = [](const ModelSpec& m, std::string_view mix) {
    return table_of(m, mix).active_bytes(m);
  };
  CHECK(active(llama_3_1_8b(), "Q4_K_M") == 4'617'396'480);
  CHECK(active(llama_3_1_8b(), "Q5_K_M") == 5'363'982'592);
  CHECK(active(llama_3_1_8b(), "Q6_K") == 6'157'230'336);
  CHECK(active(llama_3_1_8b(), "Q8_0") == 7'974'764'800);
  CHECK(active(llama_3_1_8b(), "F16") == 15'010'382'080);
  CHECK(active(mistral_7b_v0_1(), "Q4_K_M") == 4'293'976'064);
  CHECK(active(qwen2_5_7b(), "Q4_K_M") == 4'370'558'976);
  CHECK(active(qwen2_5_32b(), "Q4_K_M") == 19'407'413'248);
  CHECK(active(llama_3_1_70b(), "Q4_K_M") == 41'921'528'064);
}

TEST_CASE("An embedding that is the head is stored once and read as the head", "[tensors]") {
  const ModelSpec model = fixtures::llama_3_2_3b();
  const TensorTable table = table_of(model, "Q4_K_M");
  CHECK(table.head_is_embedding);
  CHECK(find(table, "output.weight") == nullptr);
  CHECK(tensor(table, "token_embd.weight").format == QuantFormat::kQ6_K);
  CHECK(table.active_bytes(model) == double(table.bytes()));
  CHECK(table.head.matrices == 1);
}

TEST_CASE("A token reads only its share of the experts", "[tensors]") {
  const ModelSpec model = fixtures::qwen3_30b_a3b();
  const TensorTable table = table_of(model, "Q4_K_M");
  std::uint64_t experts = 0;
  for (const LayerWeights& l : table.layers) experts += l.experts.bytes();
  const double rest = double(table.bytes() - experts - table.embedding.bytes());
  CHECK(table.active_bytes(model) == Approx(rest + double(experts) * 8 / 128));
}

TEST_CASE("Tensors of a dense block have GGUF names and shapes", "[tensors]") {
  const TensorTable table = table_of(fixtures::llama_3_1_8b(), "Q4_K_M");
  const Tensor& down = tensor(table, "blk.31.ffn_down.weight");
  CHECK(down.shape == std::array<std::uint64_t, 3>{14336, 4096, 1});
  CHECK(down.dimensions == 2);
  CHECK(down.layer == 31);
  CHECK(down.format == QuantFormat::kQ6_K);
  CHECK(tensor(table, "blk.0.attn_k.weight").shape == std::array<std::uint64_t, 3>{4096, 1024, 1});
  CHECK(tensor(table, "rope_freqs.weight").bytes == 256);
  CHECK(tensor(table, "output_norm.weight").format == QuantFormat::kF32);
  CHECK(tensor(table, "token_embd.weight").layer == -1);
  CHECK(table.layers[0].attention.matrices == 4);
  CHECK(table.layers[0].ffn.matrices == 3);
  CHECK(table.layers[0].experts.bytes() == 0);
}

TEST_CASE("gpt-oss 20B in MXFP4 is the published file, to its formats", "[tensors]") {
  const TensorTable table = table_of(fixtures::gpt_oss_20b(), "MXFP4");
  CHECK(sum_of(table, QuantFormat::kMXFP4).tensors == 72);
  CHECK(sum_of(table, QuantFormat::kQ8_0).tensors == 98);
  CHECK(sum_of(table, QuantFormat::kF32).tensors == 289);
  CHECK(table.bytes() == 12'096'558'336);  // the file has 12 109 566 624, 13.0 MB of it metadata
  CHECK(table.elements() == 20'914'757'184);
  CHECK(tensor(table, "blk.0.attn_sinks.weight").elements() == 64);
  CHECK(tensor(table, "blk.0.ffn_gate_inp.bias").elements() == 32);
  CHECK(tensor(table, "blk.0.ffn_down_exps.bias").shape ==
        std::array<std::uint64_t, 3>{2880, 32, 1});
}

TEST_CASE("Latent attention has its compressed projections", "[tensors]") {
  const TensorTable table = table_of(fixtures::deepseek_v2_lite(), "Q4_K_M");
  CHECK(find(table, "blk.0.attn_k.weight") == nullptr);
  CHECK(tensor(table, "blk.0.attn_q.weight").shape[1] == 16 * 192);
  CHECK(tensor(table, "blk.0.attn_kv_a_mqa.weight").shape[1] == 576);
  CHECK(tensor(table, "blk.0.attn_kv_a_norm.weight").elements() == 512);
  CHECK(tensor(table, "blk.0.attn_k_b.weight").format == QuantFormat::kQ5_0);  // rows of 128
  CHECK(tensor(table, "blk.0.attn_v_b.weight").format == QuantFormat::kQ4_K);
  CHECK(tensor(table, "blk.0.attn_output.weight").shape[0] == 2048);
  CHECK(tensor(table, "blk.0.ffn_up.weight").shape[1] == 10944);
  CHECK(find(table, "blk.0.ffn_up_exps.weight") == nullptr);
  CHECK(tensor(table, "blk.1.ffn_up_exps.weight").shape ==
        std::array<std::uint64_t, 3>{2048, 1408, 64});
  CHECK(tensor(table, "blk.1.ffn_down_shexp.weight").shape[0] == 2816);
  // The file of 2024 has one attn_kv_b in Q4_K where attn_k_b needs a bit more a weight:
  // 10 364 416 736 bytes, of which that leaves 4.0 MB of metadata.
  CHECK(table.bytes() - 27ull * 128 * 512 * 16 / 8 == 10'360'420'352);

  ModelSpec compressed = fixtures::deepseek_v2_lite();
  compressed.mla->q_lora_rank = 1536;
  const TensorTable with_q = table_of(compressed, "Q4_K_M");
  CHECK(tensor(with_q, "blk.0.attn_q_b.weight").shape[0] == 1536);
  CHECK(tensor(with_q, "blk.0.attn_q_a_norm.weight").elements() == 1536);
}

TEST_CASE("Fused matrices are one tensor each", "[tensors]") {
  const TensorTable table = table_of(fixtures::phi_4(), "Q4_K_M");
  CHECK(table.bytes() == 9'049'559'040);  // the file has 9 053 114 816, 3.6 MB of it metadata
  CHECK(table.tensors.size() == 243);
  CHECK(tensor(table, "blk.0.attn_qkv.weight").shape[1] == 7680);
  CHECK(tensor(table, "blk.9.attn_qkv.weight").format == QuantFormat::kQ5_K);
  CHECK(tensor(table, "blk.0.ffn_up.weight").shape[1] == 2 * 17920);
  CHECK(find(table, "blk.0.ffn_gate.weight") == nullptr);
}

TEST_CASE("Post-norms, tied heads and wide heads of Gemma 2", "[tensors]") {
  const TensorTable table = table_of(fixtures::gemma_2_2b(), "Q4_K_M");
  CHECK(table.bytes() == 1'702'536'192);  // the file has 1 708 582 752, 6.0 MB of it metadata
  CHECK(table.tensors.size() == 288);
  CHECK(tensor(table, "blk.0.attn_q.weight").shape[1] == 2048);
  CHECK(tensor(table, "blk.0.post_ffw_norm.weight").elements() == 2304);
}

TEST_CASE("Falcon has one norm with a bias and no gate", "[tensors]") {
  const TensorTable table = table_of(fixtures::falcon_7b(), "Q4_0");
  CHECK(tensor(table, "blk.0.attn_norm.bias").elements() == 4544);
  CHECK(find(table, "blk.0.ffn_norm.weight") == nullptr);
  CHECK(find(table, "blk.0.ffn_gate.weight") == nullptr);
  CHECK(table.layers[0].attention.matrices == 2);
}

TEST_CASE("Rows of 896 take the larger blocks of 32", "[tensors]") {
  const TensorTable table = table_of(fixtures::qwen2_5_0_5b(), "Q4_K_M");
  CHECK(tensor(table, "blk.0.attn_q.weight").format == QuantFormat::kQ5_0);
  CHECK(tensor(table, "blk.0.attn_v.weight").format == QuantFormat::kQ8_0);
  CHECK(tensor(table, "token_embd.weight").format == QuantFormat::kQ8_0);
  CHECK(tensor(table, "blk.0.ffn_down.weight").format == QuantFormat::kQ6_K);  // 4864 = 19 * 256
  CHECK(table.tensors.size() == 290);
  CHECK(table.bytes() == 391'859'712);
}

TEST_CASE("A hybrid's recurrent layers have a mixer in place of attention", "[tensors]") {
  ModelSpec model = fixtures::qwen3_8b();
  model.recurrent.emplace();
  model.recurrent->full_attention_every = 4;
  model.recurrent->layer_parameters = 4096 * 100 + 24;
  model.recurrent->layer_f32_parameters = 24;
  const TensorTable table = table_of(model, "Q4_K_M");
  CHECK(find(table, "blk.0.attn_q.weight") == nullptr);
  CHECK(table.layers[0].attention.elements() == 4096u * 100 + 24 + 4096);
  CHECK(tensor(table, "blk.0.recurrent_vectors.weight").format == QuantFormat::kF32);
  CHECK(find(table, "blk.3.attn_q.weight") != nullptr);
  CHECK(find(table, "blk.3.recurrent_mixer.weight") == nullptr);
}

TEST_CASE("Layers of a pattern are one block each", "[tensors]") {
  ModelSpec model = fixtures::with_experts(fixtures::llama_3_8b(), 16, 2, 512);
  model.layers = 3;
  model.pattern = "ME*";
  model.norms_per_layer = 1;
  model.recurrent.emplace();
  model.recurrent->layer_parameters = 4096 * 10;
  const TensorTable table = table_of(model, "Q8_0");
  CHECK(table.layers[0].ffn.bytes() == 0);
  CHECK(table.layers[1].attention.bytes() == 0);
  CHECK(table.layers[1].experts.matrices == 3);
  CHECK(table.layers[2].attention.matrices == 4);
  CHECK(table.layers[2].experts.bytes() == 0);
  for (int i = 0; i < 3; ++i)
    CHECK(find(table, "blk." + std::to_string(i) + ".attn_norm.weight") != nullptr);
}

TEST_CASE("Blocks that only speculate are stored and not read", "[tensors]") {
  ModelSpec model = fixtures::llama_3_8b();
  const TensorTable plain = table_of(model, "Q8_0");
  model.nextn_layers = 1;
  model.nextn_embeddings = true;
  const TensorTable table = table_of(model, "Q8_0");
  CHECK(tensor(table, "blk.32.nextn.eh_proj.weight").shape ==
        std::array<std::uint64_t, 3>{8192, 4096, 1});
  CHECK(table.bytes() == plain.bytes() + table.speculation.bytes());
  CHECK(table.active_bytes(model) == plain.active_bytes(model));
  CHECK(table.layers.size() == 32);
}

TEST_CASE("A spec without a width it needs is refused, and so is a nonsensical size", "[tensors]") {
  const QuantMix mix = *QuantMix::from_name("Q4_K_M");
  ModelSpec model = fixtures::llama_3_8b();
  model.ffn = 0;
  const auto narrow = make_tensor_table(model, mix);
  REQUIRE_FALSE(narrow.ok());
  CHECK(narrow.error().message.find("blk.0.ffn_gate") != std::string::npos);
  model = fixtures::with_experts(fixtures::llama_3_8b(), 65536, 1, 1 << 24);
  model.hidden = 1 << 24;
  CHECK_FALSE(make_tensor_table(model, mix).ok());
}

TEST_CASE("Every model of models/ has a table in every mix", "[tensors][data]") {
  int models = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(test::source_dir()) / "models")) {
    if (file.path().extension() != ".toml") continue;
    INFO(file.path().string());
    const auto model = load_model_spec(file.path());
    if (!model) FAIL(model.error().text());
    ++models;
    for (const std::string& name : QuantMix::names()) {
      const TensorTable table = table_of(*model, name);
      CHECK(table.bytes() == sum_of_groups(table));
      CHECK(table.active_bytes(*model) <= double(table.bytes()));
      std::set<std::string> tensors;
      for (const Tensor& t : table.tensors) tensors.insert(t.name);
      CHECK(tensors.size() == table.tensors.size());
    }
  }
  CHECK(models > 0);
}

}  // namespace rigcast
