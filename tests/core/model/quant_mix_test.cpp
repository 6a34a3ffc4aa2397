#include "core/model/quant_mix.hpp"

#include <algorithm>
#include <vector>

#include "tests/catch.hpp"
#include "tests/core/model_fixtures.hpp"

namespace rigcast {
namespace {

QuantMix mix(std::string_view name) {
  const auto found = QuantMix::from_name(name);
  REQUIRE(found.ok());
  return *found;
}

QuantFormat format(std::string_view name, const ModelSpec& model, TensorRole role, int layer = 0,
                   std::uint64_t row = 4096) {
  return mix(name).format_of(model, role, layer, row);
}

// Layers of a model of n layers whose role has this format.
std::vector<int> layers_with(QuantFormat wanted, std::string_view name, TensorRole role, int n) {
  ModelSpec model = fixtures::mistral_7b_v0_1();
  model.layers = n;
  std::vector<int> found;
  for (int i = 0; i < n; ++i)
    if (format(name, model, role, i) == wanted) found.push_back(i);
  return found;
}

}  // namespace

TEST_CASE("A mix is found by name in any spelling, and by llama.cpp's short names", "[quant]") {
  for (const std::string& name : QuantMix::names()) CHECK(mix(name).name() == name);
  CHECK(mix("q4_k_m").name() == "Q4_K_M");
  CHECK(mix("Q4-K-M").name() == "Q4_K_M");
  CHECK(mix("Q4_K").name() == "Q4_K_M");
  CHECK(mix("Q5_K").name() == "Q5_K_M");
  CHECK(mix("Q3_K").name() == "Q3_K_M");
  CHECK(mix("mxfp4_moe").name() == "MXFP4");
  CHECK(mix("Q4_K_M").base() == QuantFormat::kQ4_K);
  CHECK(mix("MXFP4").base() == QuantFormat::kMXFP4);
}

TEST_CASE("An unknown mix is an error that offers near ones", "[quant]") {
  const auto wrong = QuantMix::from_name("q4_k_x");
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.error().kind == ErrorKind::kBadInput);
  CHECK(wrong.error().text().find("q4_k_x") != std::string::npos);
  CHECK(wrong.error().hint.find("Q4_K_M") != std::string::npos);
  CHECK_FALSE(QuantMix::from_name("").ok());
}

TEST_CASE("Formats of other runtimes are refused by name, with what is nearest", "[quant]") {
  const auto hint = [](const char* name) {
    const auto found = QuantMix::from_name(name);
    REQUIRE_FALSE(found.ok());
    CHECK(found.error().message.find(name) != std::string::npos);
    return found.error().hint;
  };
  CHECK(hint("FP8-dynamic").find("--quant FP8") != std::string::npos);
  CHECK(hint("AWQ-4bit").find("Q4_0") != std::string::npos);
  CHECK(hint("GPTQ-Int4").find("--quant INT4") != std::string::npos);
  CHECK(hint("EXL3").find("--model-size") != std::string::npos);
  CHECK(hint("mlx-4bit").find("--model-size") != std::string::npos);
  CHECK(hint("NVFP4-16").find("FILE.gguf") != std::string::npos);
  CHECK(hint("UD-Q4_K_XL").find("--model-size") != std::string::npos);
}

TEST_CASE("Recipes of servers leave embedding and head in 16 bits", "[quant]") {
  const auto format = [](const char* name, TensorRole role) {
    return mix(name).format_of(ModelSpec{}, role, 0, 4096);
  };
  CHECK(format("FP8", TensorRole::kFfnUp) == QuantFormat::kFP8);
  CHECK(format("AWQ", TensorRole::kAttentionQ) == QuantFormat::kINT4);
  CHECK(format("NVFP4", TensorRole::kExpertDown) == QuantFormat::kNVFP4);
  for (const std::string& name : QuantMix::served_names()) {
    CHECK(mix(name).is_served());
    CHECK(format(name.c_str(), TensorRole::kOutput) == QuantFormat::kBF16);
    CHECK(format(name.c_str(), TensorRole::kTokenEmbedding) == QuantFormat::kBF16);
  }
  for (const std::string& name : QuantMix::names()) CHECK_FALSE(mix(name).is_served());
  // 16 bits of a scale and 4 of a zero point for 128 weights of 4 bits, in whole bytes.
  CHECK(info(QuantFormat::kINT4).bits_per_weight() == 4.1875);
}

TEST_CASE("A recipe is nearest to the mix whose name it contains", "[quant]") {
  const auto nearest = [](const char* name) {
    const auto found = QuantMix::nearest_to_recipe(name);
    return found ? found->name() : "";
  };
  CHECK(nearest("UD-Q4_K_XL") == "Q4_K_M");
  CHECK(nearest("UD-Q2_K_XL") == "Q2_K");
  CHECK(nearest("ud_iq2_m") == "IQ2_M");
  CHECK(nearest("UD-TQ1_0") == "IQ1_S");
  CHECK(nearest("UD-Q8_K_XL") == "Q8_0");
  CHECK(nearest("UD-Q9_K_XL").empty());
  CHECK(nearest("Q4_K_M").empty());
  CHECK(mix("Q4_K_L").plain_name() == "Q4_K_M");
  CHECK(mix("Q3_K_XL").plain_name() == "Q3_K_L");
  CHECK(mix("Q4_K_M").plain_name() == "Q4_K_M");
}

TEST_CASE("Norms, biases, routers and rope factors stay F32 in every mix", "[quant]") {
  const ModelSpec model = fixtures::mixtral_8x7b();
  for (const std::string& name : QuantMix::names())
    for (const TensorRole role :
         {TensorRole::kNorm, TensorRole::kBias, TensorRole::kRouter, TensorRole::kRope})
      CHECK(format(name, model, role) == QuantFormat::kF32);
}

TEST_CASE("M mixes raise the first and last eighth and every third layer between", "[quant]") {
  const auto raised = [](int n) {
    return layers_with(QuantFormat::kQ6_K, "Q4_K_M", TensorRole::kFfnDown, n);
  };
  CHECK(raised(16) == std::vector<int>{0, 1, 4, 7, 10, 13, 14, 15});
  CHECK(raised(28) == std::vector<int>{0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 24, 25, 26, 27});
  CHECK(raised(32) == std::vector<int>{0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31});
  CHECK(raised(36).size() == 18);
  CHECK(raised(40).size() == 20);
  CHECK(raised(48).size() == 24);
  CHECK(raised(61).size() == 30);
  CHECK(raised(64).size() == 32);
  CHECK(raised(80).size() == 40);
  CHECK(layers_with(QuantFormat::kQ6_K, "Q5_K_M", TensorRole::kAttentionV, 32) == raised(32));
}

TEST_CASE("S mixes raise the first value matrices and the first FFN eighth", "[quant]") {
  using R = TensorRole;
  CHECK(layers_with(QuantFormat::kQ5_K, "Q4_K_S", R::kAttentionV, 32) ==
        std::vector<int>{0, 1, 2, 3});
  CHECK(layers_with(QuantFormat::kQ5_K, "Q4_K_S", R::kFfnDown, 28) == std::vector<int>{0, 1, 2});
  CHECK(layers_with(QuantFormat::kQ5_K, "Q3_K_M", R::kAttentionV, 32) == std::vector<int>{0, 1});
  CHECK(layers_with(QuantFormat::kQ4_K, "Q3_K_M", R::kAttentionV, 32).size() == 30);
  CHECK(layers_with(QuantFormat::kQ5_K, "Q3_K_M", R::kFfnDown, 32) == std::vector<int>{0, 1});
  CHECK(layers_with(QuantFormat::kQ4_K, "Q3_K_M", R::kFfnDown, 32).size() == 30);
  CHECK(layers_with(QuantFormat::kQ5_K, "IQ4_XS", R::kFfnDown, 32).size() == 4);
  CHECK(layers_with(QuantFormat::kQ5_K, "Q5_K_S", R::kFfnDown, 32).size() == 32);
}

TEST_CASE("The head gets Q6_K below eight bits, and so does an embedding that is the head",
          "[quant]") {
  ModelSpec model = fixtures::llama_3_8b();
  for (const auto* name : {"Q2_K", "Q3_K_M", "IQ4_XS", "Q4_0", "Q4_K_S", "Q4_K_M", "Q5_K_M"}) {
    CHECK(format(name, model, TensorRole::kOutput, -1) == QuantFormat::kQ6_K);
    CHECK(format(name, model, TensorRole::kTokenEmbedding, -1) == mix(name).base());
  }
  CHECK(format("Q8_0", model, TensorRole::kOutput, -1) == QuantFormat::kQ8_0);
  CHECK(format("BF16", model, TensorRole::kOutput, -1) == QuantFormat::kBF16);
  model.tied_embeddings = true;
  CHECK(format("Q4_K_M", model, TensorRole::kTokenEmbedding, -1) == QuantFormat::kQ6_K);
}

TEST_CASE("Value matrices gain from grouped queries in the small mixes", "[quant]") {
  const ModelSpec grouped = fixtures::llama_3_8b();
  const ModelSpec plain = fixtures::llama_2_7b();
  CHECK(format("Q2_K", grouped, TensorRole::kAttentionV) == QuantFormat::kQ4_K);
  CHECK(format("Q2_K", plain, TensorRole::kAttentionV) == QuantFormat::kQ3_K);
  CHECK(format("Q2_K", plain, TensorRole::kAttentionOutput) == QuantFormat::kQ3_K);
  CHECK(format("IQ4_XS", grouped, TensorRole::kAttentionV) == QuantFormat::kQ5_K);
  CHECK(format("IQ4_XS", plain, TensorRole::kAttentionV) == QuantFormat::kIQ4_XS);
}

TEST_CASE("Eighty layers of grouped queries are the 70B type: no value matrix below Q5_K",
          "[quant]") {
  const ModelSpec model = fixtures::llama_3_1_70b();
  const int unraised = 11;
  REQUIRE(format("Q4_K_M", fixtures::llama_3_8b(), TensorRole::kAttentionV, 11) ==
          QuantFormat::kQ4_K);
  CHECK(format("Q4_K_M", model, TensorRole::kAttentionV, unraised) == QuantFormat::kQ5_K);
  CHECK(format("Q3_K_S", model, TensorRole::kAttentionV, unraised) == QuantFormat::kQ5_K);
  CHECK(format("Q4_K_M", model, TensorRole::kAttentionV, 0) == QuantFormat::kQ6_K);
  CHECK(format("Q4_K_M", model, TensorRole::kFfnDown, unraised) == QuantFormat::kQ4_K);
}

TEST_CASE("Eight experts: attention keeps more bits", "[quant]") {
  const ModelSpec model = fixtures::mixtral_8x7b();
  for (const auto* name : {"Q4_K_M", "Q4_K_S", "Q3_K_M", "Q2_K", "IQ4_XS"}) {
    CHECK(format(name, model, TensorRole::kAttentionK, 7) == QuantFormat::kQ8_0);
    CHECK(format(name, model, TensorRole::kAttentionV, 7) == QuantFormat::kQ8_0);
    CHECK(format(name, model, TensorRole::kAttentionOutput, 7) == QuantFormat::kQ5_K);
    CHECK(format(name, model, TensorRole::kAttentionQ, 7) == mix(name).base());
  }
  CHECK(format("Q5_K_M", model, TensorRole::kAttentionOutput, 7) == QuantFormat::kQ5_K);
  CHECK(format("F16", model, TensorRole::kAttentionV, 7) == QuantFormat::kF16);
}

TEST_CASE("The smallest mixes keep more bits where few weights are", "[quant]") {
  using R = TensorRole;
  const ModelSpec grouped = fixtures::llama_3_8b(), plain = fixtures::llama_2_7b();
  const ModelSpec experts = fixtures::qwen3_30b_a3b(), eight = fixtures::mixtral_8x7b();
  for (const auto* name : {"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS"}) {
    INFO(name);
    CHECK(format(name, grouped, R::kOutput, -1) == QuantFormat::kQ5_K);
    CHECK(format(name, grouped, R::kAttentionV) == QuantFormat::kQ4_K);
  }
  CHECK(format("IQ3_M", grouped, R::kOutput, -1) == QuantFormat::kQ6_K);
  CHECK(format("IQ2_XXS", grouped, R::kTokenEmbedding, -1) == QuantFormat::kQ2_K);
  CHECK(format("IQ2_M", grouped, R::kTokenEmbedding, -1) == QuantFormat::kIQ3_S);
  CHECK(format("IQ2_S", grouped, R::kFfnUp) == QuantFormat::kIQ2_XS);
  CHECK(format("IQ2_M", plain, R::kAttentionV) == QuantFormat::kIQ3_S);
  CHECK(format("IQ2_XS", plain, R::kAttentionV) == QuantFormat::kQ2_K);
  CHECK(format("IQ2_XS", experts, R::kAttentionV) == QuantFormat::kQ4_K);
  CHECK(format("IQ1_S", grouped, R::kAttentionOutput) == QuantFormat::kIQ2_XXS);
  CHECK(format("IQ2_M", eight, R::kAttentionOutput) == QuantFormat::kQ5_K);
  CHECK(format("IQ2_M", eight, R::kAttentionK) == QuantFormat::kQ4_K);
  CHECK(format("IQ3_S", eight, R::kAttentionK) == QuantFormat::kQ8_0);
  CHECK(format("IQ3_XXS", grouped, R::kAttentionQ) == QuantFormat::kIQ2_S);
  CHECK(layers_with(QuantFormat::kIQ3_S, "IQ3_XS", R::kFfnGate, 32) ==
        std::vector<int>{0, 1, 2, 3, 28, 29, 30, 31});
  CHECK(layers_with(QuantFormat::kQ4_K, "IQ3_M", R::kFfnDown, 32).size() == 4);
  CHECK(format("IQ2_XS", grouped, R::kFfnUp, 0, 896) == QuantFormat::kIQ4_NL);
}

TEST_CASE("Shared experts count as downs of their own in the smallest mixes", "[quant]") {
  using R = TensorRole;
  const ModelSpec model = fixtures::deepseek_v2_lite();  // 27 layers: the first 3 downs are raised
  CHECK(format("IQ2_M", model, R::kFfnDown, 0) == QuantFormat::kIQ3_S);
  CHECK(format("IQ2_M", model, R::kExpertDown, 1) == QuantFormat::kIQ3_S);
  CHECK(format("IQ2_M", model, R::kSharedDown, 1) == QuantFormat::kIQ3_S);
  CHECK(format("IQ2_M", model, R::kExpertDown, 2) == QuantFormat::kIQ2_S);
}

TEST_CASE("Falcon has its own FFN rule, a plain attention output and a Q8_0 head", "[quant]") {
  const ModelSpec model = fixtures::falcon_7b();
  CHECK(format("Q4_K_M", model, TensorRole::kFfnDown, 1) == QuantFormat::kQ6_K);
  CHECK(format("Q4_K_M", model, TensorRole::kFfnDown, 2) == QuantFormat::kQ5_K);
  CHECK(format("Q4_K_M", model, TensorRole::kFfnDown, 4) == QuantFormat::kQ4_K);
  CHECK(format("Q3_K_M", model, TensorRole::kFfnDown, 1) == QuantFormat::kQ5_K);
  CHECK(format("Q3_K_M", model, TensorRole::kFfnDown, 2) == QuantFormat::kQ4_K);
  CHECK(format("Q3_K_M", model, TensorRole::kFfnDown, 4) == QuantFormat::kQ3_K);
  CHECK(format("Q3_K_M", model, TensorRole::kAttentionOutput) == QuantFormat::kQ3_K);
  CHECK(format("Q4_K_M", model, TensorRole::kOutput, -1) == QuantFormat::kQ8_0);
}

TEST_CASE("A row that is no multiple of 256 falls back to blocks of 32, then to F16", "[quant]") {
  const ModelSpec model = fixtures::qwen2_5_0_5b();
  const auto at = [&](const char* name, std::uint64_t row) {
    return format(name, model, TensorRole::kAttentionQ, 0, row);
  };
  CHECK(at("Q4_K_M", 896) == QuantFormat::kQ5_0);
  CHECK(at("Q5_K_M", 896) == QuantFormat::kQ5_1);
  CHECK(at("Q6_K", 896) == QuantFormat::kQ8_0);
  CHECK(at("Q3_K_M", 896) == QuantFormat::kIQ4_NL);
  CHECK(at("Q2_K", 896) == QuantFormat::kIQ4_NL);
  CHECK(at("IQ4_XS", 896) == QuantFormat::kIQ4_NL);
  CHECK(at("Q4_0", 896) == QuantFormat::kQ4_0);
  CHECK(at("Q4_K_M", 900) == QuantFormat::kF16);
  CHECK(at("Q8_0", 900) == QuantFormat::kF16);
  CHECK(at("F32", 900) == QuantFormat::kF32);
  CHECK(format("Q4_K_M", model, TensorRole::kFfnDown, 0, 4864) == QuantFormat::kQ6_K);
  CHECK(format("Q4_K_M", model, TensorRole::kTokenEmbedding, -1, 896) == QuantFormat::kQ8_0);
}

TEST_CASE("MXFP4 is for experts, and gpt-oss keeps it there in every mix", "[quant]") {
  const ModelSpec qwen = fixtures::qwen3_30b_a3b();
  CHECK(format("MXFP4", qwen, TensorRole::kExpertUp) == QuantFormat::kMXFP4);
  CHECK(format("MXFP4", qwen, TensorRole::kAttentionQ) == QuantFormat::kQ8_0);
  CHECK(format("MXFP4", qwen, TensorRole::kOutput, -1) == QuantFormat::kQ8_0);
  CHECK(format("MXFP4", fixtures::llama_3_8b(), TensorRole::kFfnUp) == QuantFormat::kQ8_0);
  const ModelSpec gpt_oss = fixtures::gpt_oss_20b();
  for (const std::string& name : QuantMix::names())
    CHECK(format(name, gpt_oss, TensorRole::kExpertDown, 3, 2880) == QuantFormat::kMXFP4);
}

TEST_CASE("A hybrid's value matrices count by themselves, its FFNs by layer", "[quant]") {
  ModelSpec model = fixtures::qwen3_8b();
  model.layers = 32;
  model.recurrent.emplace();
  model.recurrent->full_attention_every = 4;  // layers 3, 7, ..., 31: eight value matrices
  const auto value = [&](int layer) {
    return format("Q4_K_M", model, TensorRole::kAttentionV, layer);
  };
  CHECK(value(3) == QuantFormat::kQ6_K);  // the 1st of 8: its eighth
  CHECK(value(7) == QuantFormat::kQ4_K);
  CHECK(value(15) == QuantFormat::kQ6_K);  // (3 - 1) % 3 == 2
  CHECK(value(31) == QuantFormat::kQ6_K);
  CHECK(format("Q4_K_M", model, TensorRole::kFfnDown, 7) == QuantFormat::kQ4_K);
  CHECK(format("Q4_K_M", model, TensorRole::kFfnDown, 6) == QuantFormat::kQ6_K);
}

}  // namespace rigcast
