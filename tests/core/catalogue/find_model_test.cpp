// Models as people name them.

#include "core/catalogue/find_model.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using fixtures::catalogue;
using fixtures::contains;

namespace {

std::string refusal(const std::string& name) {
  const auto found = find_model(catalogue(), name);
  return found ? "" : found.error().text();
}

}  // namespace

TEST_CASE("Ids of Hugging Face, tags of Ollama and names of files find the catalogue's model",
          "[catalogue]") {
  struct Case {
    const char* name;
    const char* id;
    const char* quant;
  };
  for (const Case& c : {Case{"qwen3-8b", "qwen3-8b", ""},
                        {"Qwen/Qwen3-8B", "qwen3-8b", ""},
                        {"Qwen/Qwen3-8B-Base", "qwen3-8b", ""},
                        {"unsloth/Qwen3-8B-GGUF:Q4_K_M", "qwen3-8b", "Q4_K_M"},
                        {"bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", "llama-3.1-8b", ""},
                        {"hf.co/bartowski/Qwen_Qwen3-8B-GGUF:Q6_K", "qwen3-8b", "Q6_K"},
                        {"https://huggingface.co/Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b", ""},
                        {"deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "qwen2.5-32b", ""},
                        {"qwen3:8b", "qwen3-8b", ""},
                        {"llama3.1:8b-instruct-q4_K_M", "llama-3.1-8b", "Q4_K_M"},
                        {"gemma3:27b-it-q4_K_M", "gemma-3-27b", "Q4_K_M"},
                        {"phi4-mini", "phi-4-mini", ""},
                        {"qwen-3-8b", "qwen3-8b", ""},
                        {"Qwen3-8B-BF16", "qwen3-8b", "BF16"},
                        {"google/gemma-3-27b-it-qat-q4_0-gguf", "gemma-3-27b", "Q4_0"}}) {
    const auto found = find_model(catalogue(), c.name);
    INFO(c.name << (found ? "" : found.error().text()));
    REQUIRE(found);
    CHECK(found->spec.id == c.id);
    CHECK(found->quant == c.quant);
    CHECK(found->warnings.empty());
  }
}

TEST_CASE("A model of another size or kind is never taken for it", "[catalogue]") {
  for (const char* name : {"Qwen3-9B", "Llama 3.1 9B", "mistral-13b", "Qwen/Qwen3-VL-9B",
                           "Qwen3-8B-some-finetune", "qwen3-30b", "gemma-3", "llama3.1"}) {
    const auto found = find_model(catalogue(), name);
    INFO(name << (found ? " is taken for " + found->spec.id : ""));
    CHECK((!found || found->spec.id == "qwen3-30b-a3b"));  // "qwen3:30b" is Ollama's name of it
  }
}

TEST_CASE("The name of a file that is not there says model and mix, with a warning",
          "[catalogue]") {
  const auto found = find_model(catalogue(), "/models/Qwen3-8B-Q5_K_M.gguf");
  REQUIRE(found);
  CHECK(found->spec.id == "qwen3-8b");
  CHECK(found->quant == "Q5_K_M");
  REQUIRE(found->warnings.size() == 1);
  CHECK(contains(found->warnings.front(), "no file /models/Qwen3-8B-Q5_K_M.gguf"));
}

TEST_CASE("A family without a size is no model, and its sizes are named", "[catalogue]") {
  CHECK(contains(refusal("llama3.1"), "which size: llama-3.1-405b, llama-3.1-70b, llama-3.1-8b?"));
  CHECK(contains(refusal("gemma3:latest"), "gemma-3-4b"));
  CHECK(contains(refusal("mistral"), "which size: mistral-7b-v0.1"));
  CHECK(contains(refusal("command-r"), "which size: command-r-08-2024, command-r-35b?"));
  CHECK_FALSE(contains(refusal("qwen3"), "qwen3-coder"));
  const std::pair<const char*, const char*> sized[] = {{"llama3.1:8b", "llama-3.1-8b"},
                                                       {"qwen3:14b", "qwen3-14b"},
                                                       {"gemma3:27b", "gemma-3-27b"},
                                                       {"gpt-oss:20b", "gpt-oss-20b"},
                                                       {"command-r-plus", "command-r-plus-104b"}};
  for (const auto& [tag, id] : sized) {
    INFO(tag);
    const auto found = find_model(catalogue(), tag);
    REQUIRE(found);
    CHECK(found->spec.id == id);
  }
}

TEST_CASE("A name that tells no known model says what was read of it", "[catalogue]") {
  CHECK(contains(refusal("Qwen3-9B-Q4_K_M.gguf"),
                 "no file Qwen3-9B-Q4_K_M.gguf, and no model of the name it has: it says "
                 "\"Qwen3-9B\" in Q4_K_M"));
  CHECK(contains(refusal("Qwen3-9B-Q4_K_M.gguf"), "did you mean qwen3-4b, qwen3-8b"));
  CHECK(contains(refusal("nothing"), "no model named \"nothing\"\n"));
  CHECK(contains(refusal("/no/such/path"), "no model at /no/such/path"));
}

TEST_CASE("Formats of other programs are forecast with a mix of as many bits, and say so",
          "[catalogue]") {
  const auto found = find_model(catalogue(), "Qwen/Qwen3-8B-AWQ");
  REQUIRE(found);
  CHECK(found->quant == "Q4_K_M");
  REQUIRE(found->warnings.size() == 1);
  CHECK(contains(found->warnings.front(), "AWQ is not modelled: forecast with Q4_K_M"));
  CHECK(find_model(catalogue(), "Qwen/Qwen3-8B-AWQ", "Q4_0")->warnings.empty());
}

TEST_CASE("A mix without a rule is refused with the way around it", "[catalogue]") {
  const std::string why = refusal("unsloth/Qwen3-8B-GGUF:Q4_K_XL");
  CHECK(contains(why, "Q4_K_XL has no rule here"));
  CHECK(contains(why, "--quant Q4_K_L --model-size"));
  // Whether the size of a recipe's files is known depends on the model.
  CHECK(find_model(catalogue(), "unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL")->quant == "UD-Q4_K_XL");
  CHECK(find_model(catalogue(), "unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL", "Q4_K_M"));
}

TEST_CASE("A quant mix beside the name wins over the name's, with a warning", "[catalogue]") {
  const auto s = fixtures::scenario(
      "[rig]\ngpu = 'rtx-3090'\n[model]\nname = 'a/Qwen3-8B-GGUF:Q4_K_M'\nquant = 'Q8_0'\n");
  REQUIRE(s);
  CHECK(s->quant == "Q8_0");
  CHECK(std::ranges::count(s->warnings,
                           "the model's name says Q4_K_M: forecast with Q8_0, as given") == 1);
  const auto same =
      fixtures::scenario("[rig]\ngpu = 'rtx-3090'\n[model]\nname = 'a/Qwen3-8B-GGUF:Q6_K'\n");
  REQUIRE(same);
  CHECK(same->quant == "Q6_K");
}

TEST_CASE("A model that is found by an alias is called so, and its files too", "[catalogue]") {
  const auto qwq = catalogue().model("qwq-32b");
  REQUIRE(qwq);
  CHECK(qwq->id == "qwen2.5-32b");
  CHECK(qwq->name == "QwQ 32B");
  CHECK(qwq->file_stem() == "qwq-32b");
  const auto by_id = catalogue().model("Qwen2.5 32B");
  REQUIRE(by_id);
  CHECK(by_id->name == "Qwen2.5 32B");
  CHECK(by_id->file_stem() == "qwen2.5-32b");
}

TEST_CASE("A spec, a config.json and its folder are models", "[catalogue]") {
  const test::Folder folder;
  const auto root = std::filesystem::path(test::source_dir());
  std::filesystem::copy_file(root / "models/qwen3-8b.toml", folder / "mine.toml");
  std::filesystem::create_directories(folder / "Mine-8B");
  std::filesystem::copy_file(root / "tests/data/hugging_face/qwen3-8b.json",
                             folder / "Mine-8B/config.json");
  const auto by_spec = find_model(catalogue(), folder / "mine.toml");
  REQUIRE(by_spec);
  CHECK(by_spec->spec.id == "mine");
  for (const char* name : {"Mine-8B", "Mine-8B/config.json"}) {
    const auto found = find_model(catalogue(), folder / name);
    REQUIRE(found);
    CHECK(found->spec.id == "mine-8b");
    CHECK(found->spec.layers == 36);
  }
  const std::string broken = folder.write("broken.toml", "name = 'x'\n");
  CHECK(contains(refusal(broken), "broken.toml:1:1: architecture"));
}
