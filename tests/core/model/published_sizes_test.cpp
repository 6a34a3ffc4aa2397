// Sizes of published files against the rules of mixes.

#include <cmath>
#include <filesystem>
#include <string>

#include "core/model/quantized_model.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

namespace rigcast {
namespace {

ModelSpec model(const std::string& id) {
  auto spec =
      load_model_spec(std::filesystem::path(test::source_dir()) / "models" / (id + ".toml"));
  if (!spec) FAIL(spec.error().text());
  return *std::move(spec);
}

TensorTable tensors(const std::string& id, const char* quant) {
  auto quantized = quantize(model(id), quant);
  if (!quantized) FAIL(quantized.error().text());
  return std::move(quantized->tensors);
}

struct Published {
  const char* mix;
  double size;  // in the unit of the list
};

// `rounding`: half of the list's last digit. The rest of a percent is the file's metadata, which no
// rule knows, and the vocabulary is most of it.
void check_gigabytes(const char* id, double rounding, std::initializer_list<Published> list) {
  for (const Published& p : list) {
    INFO(id << " " << p.mix);
    CHECK(std::abs(double(tensors(id, p.mix).bytes()) / 1e9 - p.size) < 0.01 * p.size + rounding);
  }
}

void check_bits(const char* id, double rounding, std::initializer_list<Published> list) {
  for (const Published& p : list) {
    INFO(id << " " << p.mix);
    const TensorTable table = tensors(id, p.mix);
    const double bits = 8.0 * double(table.bytes()) / double(table.elements());
    CHECK(std::abs(bits - p.size) < 0.01 * p.size + rounding);
  }
}

}  // namespace

TEST_CASE("Mixes of IQ1 to IQ3 have the sizes of published files", "[quant][data]") {
  // ggml-org/llama.cpp tools/quantize/README.md, bits a weight
  check_bits("llama-3.1-8b", 0.00005,
             {{"IQ1_S", 2.0042},
              {"IQ1_M", 2.1460},
              {"IQ2_XXS", 2.3824},
              {"IQ2_XS", 2.5882},
              {"IQ2_S", 2.7403},
              {"IQ2_M", 2.9294},
              {"IQ3_XXS", 3.2548},
              {"IQ3_XS", 3.4977},
              {"IQ3_S", 3.6606},
              {"IQ3_M", 3.7628}});
  // bartowski/Meta-Llama-3.1-70B-Instruct-GGUF
  check_gigabytes("llama-3.1-70b", 0.005,
                  {{"IQ1_M", 16.75},
                   {"IQ2_XXS", 19.10},
                   {"IQ2_XS", 21.14},
                   {"IQ2_S", 22.24},
                   {"IQ2_M", 24.12},
                   {"IQ3_XS", 29.31},
                   {"IQ3_M", 31.94}});
  // bartowski/Qwen2.5-72B-Instruct-GGUF: its FFN is no multiple of 256 wide
  check_gigabytes("qwen2.5-72b", 0.005,
                  {{"IQ1_M", 23.74},
                   {"IQ2_XXS", 25.49},
                   {"IQ2_XS", 27.06},
                   {"IQ2_M", 29.34},
                   {"IQ3_XXS", 31.85},
                   {"IQ3_M", 35.50}});
  // ikawrakow/ik_llama.cpp PR 53 (main), and IQ1_S from ggml-org/llama.cpp PR 8836 (master)
  check_bits("gemma-2-9b", 0.005,
             {{"IQ1_S", 2.05},
              {"IQ1_M", 2.20},
              {"IQ2_XXS", 2.44},
              {"IQ2_XS", 2.65},
              {"IQ2_S", 2.77},
              {"IQ2_M", 2.97},
              {"IQ3_XXS", 3.28},
              {"IQ3_S", 3.75}});
  // bartowski/Mistral-7B-Instruct-v0.3-GGUF
  check_gigabytes("mistral-7b-v0.3", 0.005,
                  {{"IQ1_S", 1.61},
                   {"IQ1_M", 1.75},
                   {"IQ2_XXS", 1.99},
                   {"IQ2_XS", 2.20},
                   {"IQ2_S", 2.31},
                   {"IQ2_M", 2.50},
                   {"IQ3_XXS", 2.83},
                   {"IQ3_XS", 3.02},
                   {"IQ3_S", 3.18},
                   {"IQ3_M", 3.28}});
  // legraphista/DeepSeek-V2-Lite-IMat-GGUF: shared experts, and rows that are no multiple of 256
  check_gigabytes("deepseek-v2-lite", 0.005,
                  {{"IQ1_S", 4.99},
                   {"IQ1_M", 5.24},
                   {"IQ2_XXS", 5.64},
                   {"IQ2_XS", 5.97},
                   {"IQ2_S", 6.01},
                   {"IQ2_M", 6.33},
                   {"IQ3_XXS", 6.96},
                   {"IQ3_XS", 7.12},
                   {"IQ3_S", 7.49},
                   {"IQ3_M", 7.55}});
}

TEST_CASE("Mixes with a wider embedding and head have the sizes of published files",
          "[quant][data]") {
  // bartowski/Meta-Llama-3.1-70B-Instruct-GGUF and Qwen2.5-72B-Instruct-GGUF
  check_gigabytes("llama-3.1-70b", 0.005, {{"Q2_K_L", 27.40}, {"Q3_K_XL", 38.06}});
  check_gigabytes("qwen2.5-72b", 0.005, {{"Q2_K_L", 31.03}, {"Q3_K_XL", 40.60}});
}

TEST_CASE("Per-layer embeddings are quantised as the head they are tied to", "[quant][data]") {
  // google/gemma-4-E2B-it-qat-q4_0-gguf: 3.35 GB, of them 1926.8 and 330.3 MB of embeddings in Q6_K
  check_gigabytes("gemma-4-e2b", 0.005, {{"Q4_0", 3.35}});
  CHECK(double(tensors("gemma-4-e2b", "Q4_0").embedding.bytes()) / 1e6 ==
        Approx(1926.8 + 330.3).epsilon(0.0001));
  for (const auto& [quant, format] : {std::pair{"Q4_K_M", QuantFormat::kQ6_K},
                                      {"IQ2_M", QuantFormat::kQ5_K},
                                      {"Q8_0", QuantFormat::kQ8_0}})
    for (const Tensor& t : tensors("gemma-4-e2b", quant).tensors) {
      if (t.name == "per_layer_token_embd.weight") CHECK(t.format == format);
      if (t.name == "per_layer_model_proj.weight") CHECK(t.format == QuantFormat::kBF16);
    }
}

TEST_CASE("A recipe of one model has the size of its files and says what is not known",
          "[quant][data]") {
  const auto known = quantize(model("qwen3-30b-a3b"), "ud-q4_k_xl");
  REQUIRE(known.ok());
  CHECK(known->quant == "UD-Q4_K_XL");
  CHECK(double(known->tensors.bytes()) == Approx(16.49 * 0x1p30).epsilon(1e-6));
  CHECK(known->note.find("in proportion to Q4_K_M") != std::string::npos);
  const auto unknown = quantize(model("llama-3.1-8b"), "UD-Q4_K_XL");
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().hint.find("--model-size") != std::string::npos);
  const auto stated = quantize(model("llama-3.1-8b"), "UD-Q4_K_XL", true);
  REQUIRE(stated.ok());
  CHECK(stated->tensors.bytes() == tensors("llama-3.1-8b", "Q4_K_M").bytes());
  CHECK_FALSE(quantize(model("llama-3.1-8b"), "UD-Q9_K_XL", true).ok());
}

TEST_CASE("A published size is of the release whose name was given", "[quant]") {
  ModelSpec spec = model("deepseek-v3");
  const auto gib = [&](const char* quant) {
    const PublishedFile* const file = find_published(spec, quant);
    return file ? file->size.value / 0x1p30 : 0.0;
  };
  spec.alias = "DeepSeek-R1 671B";
  CHECK(gib("UD-Q2_K_XL") == Approx(211.03));
  CHECK(gib("UD-Q4_K_XL") == 0.0);
  spec.alias = "DeepSeek-R1-0528";
  CHECK(gib("ud-q2-k-xl") == Approx(251e9 / 0x1p30));
  CHECK(gib("IQ3_KT") == Approx(272.527));
  spec.alias = "DeepSeek-V3.1";
  CHECK(gib("UD-Q2_K_XL") == 0.0);
  // Who asks for one all the same gets another release's, and a name that is no recipe's the
  // nearest mix in size.
  CHECK(double(quantize(spec, "UD-Q4_K_XL")->tensors.bytes()) == Approx(384e9).epsilon(1e-6));
  const auto kt = quantize(spec, "IQ3_KT");
  REQUIRE(kt.ok());
  CHECK(double(kt->tensors.bytes()) == Approx(272.527 * 0x1p30).epsilon(1e-6));
  CHECK(kt->note.find("in proportion to") != std::string::npos);
  CHECK_FALSE(quantize(spec, "IQ5_KT").ok());
}

TEST_CASE("Every recipe in models/ is about as large as its nearest mix", "[quant][data]") {
  int recipes = 0;
  const auto folder = std::filesystem::path(test::source_dir()) / "models";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".toml") continue;
    const ModelSpec spec = model(file.path().stem().string());
    for (const PublishedFile& f : spec.published) {
      INFO(spec.id << " " << f.quant);
      ++recipes;
      CHECK(quantize(spec, f.quant)->tensors.bytes() > 0);
      const auto nearest = QuantMix::nearest_to_recipe(f.quant);
      if (!nearest) continue;
      const double usual = double(quantize(spec, nearest->name())->tensors.bytes());
      // A recipe keeps some tensors in twice the bits of others, or more.
      CHECK(f.size.value / usual > 0.7);
      CHECK(f.size.value / usual < 1.4);
    }
  }
  CHECK(recipes > 0);
}

TEST_CASE("A model published in a format of llama.cpp's has it by default", "[quant][data]") {
  CHECK(default_quant(model("gpt-oss-20b")) == "MXFP4");
  CHECK(default_quant(model("llama-3.1-8b")) == "Q4_K_M");
  CHECK(model("deepseek-v3").native == "FP8");
  CHECK(default_quant(model("deepseek-v3")) == "Q4_K_M");
}

}  // namespace rigcast
