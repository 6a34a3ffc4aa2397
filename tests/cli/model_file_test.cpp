// Model files on the command line: shown, forecast, refused.

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/core/model_fixtures.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"

using namespace rigcast::cli_test;
using rigcast::engine::fixtures::header_of;
using rigcast::engine::fixtures::Raw;
using rigcast::engine::fixtures::write_sparse;
using Json = nlohmann::json;

namespace {

// Llama 3.1 8B by its shape: a file of 4.9 GB that takes no room.
std::string write_llama(const Folder& folder, const std::string& name = "llama.gguf") {
  auto header = header_of(rigcast::fixtures::llama_3_1_8b(), "Q4_K_M");
  header.set("general.file_type", std::uint32_t(15));
  header.set("tokenizer.ggml.tokens", std::vector<std::string>(1000, "token"));
  write_sparse(header, folder / name);
  return folder / name;
}

Outcome forecast(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"simulate",  "--gpu", "rtx-3060-12gb",
                                    "--context", "2048",  "--no-advice"};
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}

Json json_of(const Outcome& o) {
  INFO(o.error);
  REQUIRE(o.exit == 0);
  return Json::parse(o.out);
}

void check_refused(const Outcome& o, const std::vector<std::string>& parts) {
  INFO("stdout: " << o.out << "\nstderr: " << o.error);
  CHECK(o.exit == 2);
  CHECK((o.out.empty() || contains(o.out, "\"rigcast.error/1\"")));
  for (const std::string& part : parts) CHECK(contains(o.error, part));
}

}  // namespace

TEST_CASE("A model file is shown like a model of the catalogue, and its metadata", "[cli]") {
  const Folder folder;
  const std::string file = write_llama(folder);
  const Outcome o = run({"inspect", file});
  INFO(o.error);
  CHECK(o.exit == 0);
  CHECK(contains(o.out, "Q4_K_M   8.03 B parameters, 4.91 GB of tensors, 4.89 bits a weight"));
  CHECK(contains(o.out, "32 layers, hidden 4096, 32 heads of 128, 8 KV heads, FFN 14336"));
  CHECK(contains(o.out, "Q4_K         193"));
  CHECK(contains(o.out, "GGUF version 3, 4.91 GB in 1 part, 292 tensors"));
  CHECK(contains(o.out, "llama.attention.head_count_kv = 8\n"));
  CHECK(contains(o.out, "tokenizer.ggml.tokens = [1000 strings]\n"));
  CHECK_FALSE(contains(o.out, "blk.0"));
  CHECK(contains(run({"inspect", file, "--tensors"}).out, "blk.31.ffn_down.weight"));
}

TEST_CASE("The JSON of a file has the keys of the catalogue's, and the file's own", "[cli]") {
  const Folder folder;
  const Json file = json_of(run({"inspect", write_llama(folder), "--format", "json"}));
  const Json known = json_of(run({"inspect", "llama-3.1-8b", "--format", "json"}));
  for (const auto& [key, value] : known.items()) {
    INFO(key);
    REQUIRE(file.contains(key));
    const bool named =
        key == "id" || key == "name" || key == "source" || key == "tensors" || key == "context";
    if (!named) CHECK(file[key] == value);
  }
  CHECK(file["tensors"].size() == known["tensors"].size());
  CHECK(file["file"]["version"] == 3);
  CHECK(file["file"]["parts"] == 1);
  CHECK(file["file"]["bytes"] == std::filesystem::file_size(folder / "llama.gguf"));
  CHECK(file["file"]["metadata"]["general.architecture"] == "llama");
  CHECK(file["file"]["metadata"]["llama.block_count"] == 32);
  CHECK(file["file"]["metadata"]["tokenizer.ggml.tokens"] == "[1000 strings]");
  CHECK(file["reason"].is_null());
}

TEST_CASE("A file of no known kind of model still shows what it holds", "[cli]") {
  const Folder folder;
  Raw raw;
  raw.begin(1, 1).text("a.text").u32(8).text("x\x1b[31m\xff\"");
  raw.tensor("odd \x1b\xff,name", {256, 2}, 16, 0);
  const std::string file = folder.write("odd.gguf", raw.pad().zeros(132).bytes);
  const Outcome text = run({"inspect", file, "--tensors"});
  CHECK(text.exit == 0);
  CHECK(contains(text.out, "not understood: the metadata lack \"general.architecture\""));
  CHECK(contains(text.out, "a.text = \"x [31m?\"\""));
  CHECK(contains(text.out, "IQ2_XXS"));
  CHECK_FALSE(contains(text.out, "\x1b"));
  const Json json = json_of(run({"inspect", file, "--format", "json"}));
  CHECK(json["layers"].is_null());
  CHECK(json["architecture"].is_null());
  CHECK(json["tensor_bytes"] == 132);
  CHECK(contains(json["reason"].get<std::string>(), "general.architecture"));
  CHECK(
      contains(run({"inspect", file, "--format", "csv"}).out, "\"odd  ?,name\",256x2,IQ2_XXS,132"));
}

TEST_CASE("A forecast of a file is that of its model and mix", "[cli]") {
  const Folder folder;
  const Json by_file = json_of(forecast({"--model", write_llama(folder), "--format", "json"}));
  const Json by_name = json_of(forecast({"--model", "llama-3.1-8b", "--format", "json"}));
  for (const char* key : {"decode", "memory", "ttft", "prefill_tokens_per_s"})
    CHECK(by_file[key] == by_name[key]);
  CHECK(by_file["scenario"]["model"]["name"] == "llama");
  CHECK(by_file["scenario"]["model"]["quant"] == "Q4_K_M");
  CHECK(by_file["scenario"]["model"]["tensor_bytes"] == 4912898304);
}

TEST_CASE("A file may be named by a scenario, by its path alone, or split", "[cli]") {
  const Folder folder;
  write_llama(folder);
  const std::string scenario =
      folder.write("s.toml", "[rig]\ngpu = 'rtx-3060-12gb'\n[model]\nfile = 'llama.gguf'\n");
  const Outcome o = run({"simulate", scenario, "--no-advice", "--context", "2048"},
                        {.folder = folder.path().string()});
  INFO(o.error);
  CHECK(o.exit == 0);
  // Without the ending, a slash makes it a path.
  std::filesystem::create_hard_link(folder / "llama.gguf", folder / "llama");
  CHECK(forecast({"--model", folder / "llama"}).exit == 0);
  check_refused(forecast({"--model", "no/such/model"}), {"no model named \"no/such/model\""});
}

TEST_CASE("With advice, what a file cannot be is not advised", "[cli]") {
  const Folder folder;
  const Outcome o = run(
      {"simulate", "--gpu", "rtx-3060-12gb", "--context", "2048", "--model", write_llama(folder)});
  INFO(o.error);
  CHECK(o.exit == 0);
  CHECK_FALSE(contains(o.out, "--quant"));
}

TEST_CASE("A file has its own name, mix and size", "[cli]") {
  const Folder folder;
  const std::string file = write_llama(folder);
  check_refused(forecast({"--model", file, "--quant", "Q8_0"}),
                {"--quant: a model file was named, which has its own quant",
                 "leave out model.quant, or model.file"});
  check_refused(forecast({"--model", file, "--model-size", "4 GiB"}), {"--model-size", "own size"});
  check_refused(forecast({"--model", file, "--set", "model.name=x"}), {"own name"});
  check_refused(run({"inspect", file, "--quant", "Q8_0"}), {"--quant", "own formats"});
  const std::string both = folder.write(
      "both.toml", "[rig]\ngpu = 'rtx-3060-12gb'\n[model]\nfile = 'x.gguf'\nname = 'phi-4'\n");
  check_refused(run({"simulate", both}), {"both.toml:5:8: model.name", "a model file was named"});
}

TEST_CASE("A model on the command line takes the place of the scenario's, of either kind",
          "[cli]") {
  const Folder folder;
  const std::string file = write_llama(folder);
  const std::string by_name = folder.write(
      "name.toml",
      "[rig]\ngpu = 'rtx-3060-12gb'\n[model]\nname = 'phi-4'\nquant = 'Q8_0'\nsize = '15 GB'\n");
  const std::string by_file =
      folder.write("file.toml", "[rig]\ngpu = 'rtx-3060-12gb'\n[model]\nfile = 'none.gguf'\n");
  const auto model_of = [](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"simulate",    "--context", "2048",
                                    "--no-advice", "--format",  "json"};
    all.insert(all.end(), words.begin(), words.end());
    return json_of(run(all))["scenario"]["model"];
  };
  CHECK(model_of({by_name, "--model", file})["quant"] == "Q4_K_M");
  CHECK(model_of({by_file, "--model", "llama-3.2-1b"})["name"] == "llama-3.2-1b");
}

TEST_CASE("Files that are damaged or not there are refused with what and where", "[cli]") {
  const Folder folder;
  const std::string text = folder.write("text.gguf", "hello");
  const std::string cut =
      folder.write("cut.gguf", header_of(rigcast::fixtures::llama_3_1_8b(), "Q4_K_M").encode());
  check_refused(run({"inspect", text}), {text + ": not a GGUF file"});
  check_refused(run({"inspect", folder / "none.gguf"}), {"no file " + folder / "none.gguf"});
  check_refused(run({"inspect", cut}), {cut + ": tensor \"token_embd.weight\" takes"});
  check_refused(run({"inspect", folder.path().string()}), {"is a directory"});
  check_refused(forecast({"--model", text}), {"--model: " + text + ": not a GGUF file"});
  check_refused(forecast({"--model", folder / "none.gguf"}), {"--model: no file"});
  check_refused(forecast({"--model", cut}), {"--model", "token_embd.weight", "fetch it again"});
}

TEST_CASE("A projector's file is counted, and another file is none", "[cli]") {
  const Folder folder;
  rigcast::engine::GgufHeader header;
  header.set("general.architecture", std::string("clip"));
  const std::uint64_t shape[] = {1024, 1024, 256};  // 512 MiB
  header.add_tensor("v.blk.0.attn_q.weight", rigcast::QuantFormat::kF16, shape);
  write_sparse(header, folder / "mmproj.gguf");
  const std::string projector = folder / "mmproj.gguf";
  const auto memory = [](const Json& j) {
    return j.at("memory").at(0).at("weights").get<double>();
  };
  const std::vector<std::string> model{"--model", "llama-3.1-8b", "--format", "json"};
  const auto seeing = [&](std::vector<std::string> more) {
    more.insert(more.end(), model.begin(), model.end());
    return forecast(more);
  };
  const Json with = json_of(seeing({"--mmproj", projector}));
  CHECK(memory(with) - memory(json_of(seeing({}))) == 512.0 * 1024 * 1024);
  CHECK(contains(with["warnings"].dump(), "the time to encode an image are not forecast"));
  CHECK(memory(json_of(seeing({"--mmproj", projector, "--mmproj-offload", "off"}))) ==
        memory(json_of(seeing({}))));

  check_refused(seeing({"--mmproj", write_llama(folder)}),
                {"\"llama\" is no vision projector", "mmproj-*.gguf"});
  check_refused(seeing({"--mmproj", folder / "none.gguf"}), {"none.gguf"});
  check_refused(seeing({"--mmproj", projector, "--runtime", "rigcast"}),
                {"rigcast takes no vision projector", "--runtime llama.cpp"});
}

TEST_CASE("A draft model may be a file or a name", "[cli]") {
  const Folder folder;
  const std::string file = write_llama(folder);
  const std::string emit = run({"plan", "--gpu", "rtx-4090", "--model", "llama-3.3-70b",
                                "--context", "2048", "--model-draft", file, "--emit", "llama.cpp"})
                               .out;
  CHECK(contains(emit, "-md " + file + " -ngld 33 "));
  const Outcome named = forecast(
      {"--model", "llama-3.1-8b", "--model-draft", "llama-3.2-1b", "--draft-quant", "Q8_0"});
  CHECK(named.exit == 0);
  CHECK(contains(named.out, "draft model Llama 3.2 1B"));
  check_refused(run({"run", "--model", "llama-3.2-1b", "--model-draft", "llama-3.2-1b"}),
                {"rigcast takes no draft model"});
}
