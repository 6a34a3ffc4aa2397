// What the names of models say: publisher, model, words that change no shape, quant mix.

#include "core/model/model_names.hpp"

#include <algorithm>

#include "tests/catch.hpp"

using namespace rigcast;

namespace {

bool has(const StatedModel& stated, const std::string& name) {
  return std::ranges::find(stated.names, name) != stated.names.end();
}

}  // namespace

TEST_CASE("A model and a mix are read from ids, addresses, tags and file names", "[names]") {
  struct Case {
    const char* text;
    const char* model;
    const char* quant;
  };
  for (const Case& c : {
           Case{"Qwen/Qwen3-8B", "Qwen3-8B", ""},
           {"unsloth/Qwen3-8B-GGUF:Q4_K_M", "Qwen3-8B", "Q4_K_M"},
           {"unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL", "Qwen3-8B", "UD-Q4_K_XL"},
           {"hf.co/bartowski/Qwen_Qwen3-8B-GGUF:IQ4_XS", "Qwen3-8B", "IQ4_XS"},
           {"https://huggingface.co/Qwen/Qwen3-8B", "Qwen3-8B", ""},
           {"https://huggingface.co/Qwen/Qwen3-8B/tree/main", "Qwen3-8B", ""},
           {"https://huggingface.co/a/b/resolve/main/Qwen3-8B-Q8_0.gguf?download=true", "Qwen3-8B",
            "Q8_0"},
           {"Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B", "Q4_K_M"},
           {"/models/Qwen3-235B-A22B-Q4_K_M-00001-of-00003.gguf", "Qwen3-235B-A22B", "Q4_K_M"},
           {"bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", "Meta-Llama-3.1-8B", ""},
           {"gemma-3-4b-it-qat-q4_0-gguf", "gemma-3-4b", "q4_0"},
           {"llama3.1:8b-instruct-q4_K_M", "llama3.1:8b", "q4_K_M"},
           {"qwen3:8b", "qwen3:8b", ""},
           {"Qwen3-8B-AWQ", "Qwen3-8B", "AWQ"},
           {"Qwen3-8B-GPTQ-Int4", "Qwen3-8B", "GPTQ-Int4"},
           {"mlx-community/Qwen3-8B-MLX-8bit", "Qwen3-8B", "MLX-8bit"},
           {"Llama-3.3-70B-Instruct-FP8-dynamic", "Llama-3.3-70B", "FP8-dynamic"},
           {"Qwen3-8B-MLX", "Qwen3-8B", ""},  // which says nothing of bits
       }) {
    const StatedModel stated = stated_model(c.text);
    INFO(c.text << " -> " << (stated.names.empty() ? "" : stated.names.back()));
    CHECK(has(stated, c.model));
    CHECK(stated.names.back() == c.model);
    CHECK(stated.quant == c.quant);
  }
}

TEST_CASE("A size is never left out of a name", "[names]") {
  CHECK(stated_model("Llama 3.1 9B").names.back() == "Llama 3.1 9B");
  CHECK(stated_model("mistral-13b-instruct").names.back() == "mistral-13b");
}

TEST_CASE("Names of any length and kind are read without harm", "[names]") {
  CHECK(stated_model("").names.empty());
  CHECK(stated_model(std::string(100'000, '-')).quant.empty());
  CHECK(stated_model(std::string(100'000, '/')).quant.empty());
  CHECK(stated_model("\xff\xfe:Q4_K_M").quant == "Q4_K_M");
}

TEST_CASE("Formats of other programs are like a mix of as many bits", "[names]") {
  CHECK(mix_like_format("AWQ")->name() == "Q4_K_M");
  CHECK(mix_like_format("GPTQ-Int4")->name() == "Q4_K_M");
  CHECK(mix_like_format("GPTQ-Int8")->name() == "Q8_0");
  CHECK(mix_like_format("FP8")->name() == "Q8_0");
  CHECK(mix_like_format("MLX-6bit")->name() == "Q6_K");
  CHECK_FALSE(mix_like_format("MLX"));
  CHECK_FALSE(mix_like_format(""));
}
