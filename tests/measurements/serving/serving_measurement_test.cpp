// Operating points of servers, and the scenarios that stand for them.
#include "measurements/serving/resolve_serving.hpp"

#include "tests/catch.hpp"
#include "tests/paths.hpp"

using namespace rigcast;

namespace {

const std::string kColumns =
    "id,source,engine,model,quant,gpu,gpus,tp,arrival,concurrency,request_rate,prompt_tokens,"
    "output_tokens,dataset,requests,output_tok_s,ttft_p50_ms,ttft_p99_ms,tpot_p50_ms,itl_p50_ms,"
    "spec_decode,settings,flags\n";

ServingMeasurement one(const std::string& line) {
  const auto rows = parse_serving_measurements(kColumns + line + "\n", "runs.csv");
  REQUIRE(rows);
  REQUIRE(rows->size() == 1);
  return rows->front();
}

const std::string kVllm =
    "A1,somewhere,vllm,meta-llama/Meta-Llama-3.1-8B-Instruct,BF16,RTX 4090,1,1,poisson,,4.0,202.5,"
    "211.4,ShareGPT_V3,668,,49.2,126.64,20.07,,,KV capacity 56800 tokens; max_num_batched_tokens "
    "2048; max_num_seqs 64,";

std::string refusal(const std::string& line) {
  NameResolver resolver{Catalogue(test::source_dir())};
  const auto run = resolve_serving(one(line), resolver);
  return run ? std::string() : run.error().message;
}

}  // namespace

TEST_CASE("A server's run is read with its settings", "[serving]") {
  const ServingMeasurement m = one(kVllm);
  CHECK(m.engine == "vllm");
  CHECK(*m.rate == 4);
  CHECK(m.varied_lengths);
  CHECK(*m.cache_tokens == 56'800);
  CHECK(*m.max_sequences == 64);
  CHECK(*m.max_step_tokens == 2048);
  CHECK(*m.tpot.p50 == 20.07);
  CHECK_FALSE(m.is_doubtful());
  CHECK(is_serving_table(kColumns));
  CHECK_FALSE(is_serving_table("id,gpu,model,quant,metric,value\n"));
}

TEST_CASE("A server's settings are read from its command, too", "[serving]") {
  std::string line = kVllm;
  const auto at = line.find("KV capacity");
  line = line.substr(0, at) +
         "trtllm-serve Qwen/Qwen3-14B --max_num_tokens=16384 --enable_chunked_prefill,";
  const ServingMeasurement m = one(line);
  CHECK(*m.max_step_tokens == 16384);
  CHECK(m.chunked);
  CHECK(*one(line.substr(0, at) + "vllm serve a/b --max-num-seqs 8 --gpu-memory-utilization 0.8,")
             .max_sequences == 8);
}

TEST_CASE("The scenario of a server's run is what a user would give", "[serving]") {
  NameResolver resolver{Catalogue(test::source_dir())};
  const auto run = resolve_serving(one(kVllm), resolver);
  REQUIRE(run);
  const Scenario& s = *run->scenario;
  CHECK(s.model.id == "llama-3.1-8b");
  CHECK(s.runtime.id == "vllm");
  CHECK(run->chip == "rtx-4090");
  REQUIRE(s.load);
  CHECK(s.load->arrival == ArrivalProcess::kPoisson);
  CHECK(s.load->rate == 4);
  // The mean of lengths that vary is the one that is stated.
  CHECK(mean_prompt(*s.load) == Approx(202.5).epsilon(0.01));
  CHECK(mean_output(*s.load) == Approx(211.4).epsilon(0.01));
  CHECK(s.scheduler->sequences == 64);
}

TEST_CASE("A run that is not forecast says why", "[serving]") {
  const std::string start = "A1,somewhere,", end = ",,512,256,synthetic,,100,,,,,,,";
  CHECK(refusal(start + "mindie,Qwen3-4B,bf16,RTX 3090,1,1,closed,4" + end) ==
        "the program mindie is not forecast");
  for (const char* engine : {"sglang", "tensorrt-llm"})
    CHECK(refusal(start + engine + ",Qwen3-4B,bf16,RTX 3090,1,1,closed,4" + end).empty());
  CHECK(refusal(start + "vllm,Qwen3-4B,bf16,RTX 3090,2,2,closed,4" + end).empty());
  CHECK(refusal(start + "vllm,Qwen3-4B,bf16,RTX 3090,4,2,closed,4" + end) ==
        "GPUs that share requests so are not forecast");
  // Stages and engines are counted: columns of the table that this one does not have.
  ServingMeasurement groups = one(start + "vllm,Qwen3-4B,bf16,RTX 3090,4,1,closed,4" + end);
  NameResolver resolver{Catalogue(test::source_dir())};
  groups.pipeline_parallel = groups.data_parallel = 2;
  const auto run = resolve_serving(groups, resolver);
  REQUIRE(run);
  CHECK(
      (run->scenario->placement.groups.pipeline == 2 && run->scenario->placement.groups.data == 2));
  groups.pipeline_parallel = 4;
  CHECK_FALSE(resolve_serving(groups, resolver));
  // Whole experts: all GPUs that share a layer, or none.
  ServingMeasurement experts = one(start + "vllm,Qwen3-30B-A3B,bf16,RTX 3090,4,4,closed,4" + end);
  CHECK_FALSE(resolve_serving(experts, resolver)->scenario->placement.groups.whole_experts);
  experts.expert_parallel = 4;
  CHECK(resolve_serving(experts, resolver)->scenario->placement.groups.whole_experts);
  experts.expert_parallel = 2;
  CHECK_FALSE(resolve_serving(experts, resolver));
  CHECK(one(start + "vllm,Qwen3-30B-A3B,bf16,RTX 3090,4,4,closed,4,,512,256,synthetic,,100,,,,,,"
                    "vllm serve a/b --enable-expert-parallel,")
            .expert_parallel == 4);
  CHECK(refusal(start + "llama.cpp,Qwen3-4B,gguf-q4_k_m,RTX 3090,1,1,closed,4" + end) ==
        "the number of slots is not stated");
  CHECK(refusal(start + "vllm,Qwen3-4B,bf16,RTX 3090,1,1,closed,4" + end).empty());
  CHECK(refusal(start + "vllm,Qwen3-4B,fp8-dynamic,RTX 3090,1,1,closed,4" + end).empty());
  CHECK_FALSE(refusal(start + "vllm,Qwen3-4B,qat-int2,RTX 3090,1,1,closed,4" + end).empty());
  CHECK_FALSE(refusal(start + "vllm,Nobody-4B,bf16,RTX 3090,1,1,closed,4" + end).empty());
}

TEST_CASE("Sequences in lockstep are llama.cpp's, without a load", "[serving]") {
  NameResolver resolver{Catalogue(test::source_dir())};
  const auto run = resolve_serving(
      one("A1,somewhere,llama.cpp,Qwen3-4B,gguf-q4_k_m,RTX 3090,1,,lockstep,8,,512,32,,,,,,,,,"
          "n_batch 1024; n_ubatch 256; is_pp_shared 1,"),
      resolver);
  REQUIRE(run);
  CHECK(run->scenario->runtime.id == "llama.cpp");
  CHECK_FALSE(run->scenario->load);
  CHECK(run->scenario->scheduler->sequences == 8);
  CHECK(run->scenario->settings.batch == 1024);
  CHECK(run->scenario->settings.ubatch == 256);
  CHECK(run->scenario->workload.context >= 544);
  CHECK(run->measured.shared_prompt);
}

TEST_CASE("What a benchmark does not know is asked for, and wins where it is given", "[serving]") {
  NameResolver resolver{Catalogue(test::source_dir())};
  ServingMeasurement m;
  m.id = m.source = "run.json";
  m.arrival = "closed";
  m.concurrency = 4;
  m.prompt_tokens = 512;
  m.output_tokens = 128;
  const auto asked = [&](const std::string& given) {
    const auto document = TomlDocument::parse(given, "flags");
    REQUIRE(document);
    const auto error = missing_facts(m, *document, resolver);
    return error ? error->message + " " + error->hint : "";
  };
  for (const char* flag : {"--runtime", "--gpu", "--rig", "--model", "--quant"})
    CHECK(asked("").find(flag) != std::string::npos);
  CHECK(asked("").find("--slots") == std::string::npos);
  m.model = "Nobody/Nobody-7B";
  CHECK(asked("").find("\"Nobody/Nobody-7B\" is not") != std::string::npos);
  m.model = "Qwen/Qwen3-8B";
  const std::string rig = "[rig]\ngpu = [\"rtx-4090\"]\n";
  CHECK(asked(rig + "[runtime]\nname = \"vllm\"").find("--quant BF16") != std::string::npos);
  const std::string model = "[model]\nquant = \"Q8_0\"\n";
  const std::string served = "[runtime]\nname = \"llama.cpp\"\n";
  CHECK(asked(rig + model + served).find("--slots") != std::string::npos);
  const std::string all = rig + model + served + "[scheduler]\nslots = 2\n";
  CHECK(asked(all).empty());

  const auto resolved = [&](const std::string& given) {
    const auto document = TomlDocument::parse(given, "flags");
    REQUIRE(document);
    return resolve_serving(m, resolver, *document);
  };
  const auto run = resolved(all + "[workload]\nprompt_tokens = 100\ncontext = 2048\n");
  REQUIRE(run);
  const Scenario& s = *run->scenario;
  CHECK(s.model.id == "qwen3-8b");
  CHECK(s.quant == "Q8_0");
  CHECK(s.scheduler->sequences == 2);
  CHECK(s.workload.context == 2048);
  CHECK(mean_prompt(*s.load) == 100);
  CHECK(mean_output(*s.load) == 128);
  CHECK(run->chip == "rtx-4090");
  // A program that is stated is no other one; a client that says vllm may talk to any.
  m.engine = "sglang";
  CHECK(resolved(all).error().message == "ran on sglang, not on llama.cpp");
  m.engine = "vllm";
  CHECK(resolved(all));
  m.obstacle = "no request was answered";
  CHECK(resolved(all).error().message == "no request was answered");
}

TEST_CASE("Broken tables of servers are told with line and column", "[serving]") {
  const auto error = [](const std::string& text) {
    const auto rows = parse_serving_measurements(text, "runs.csv");
    return rows ? std::string() : rows.error().text();
  };
  CHECK(error(kColumns + "A1,x\n").find("runs.csv:2") != std::string::npos);
  std::string line = kVllm;
  line.replace(line.find(",4.0,"), 5, ",-4,");
  CHECK(error(kColumns + line + "\n").find("request_rate") != std::string::npos);
  line = kVllm;
  line.replace(line.find("202.5"), 5, "nan");
  CHECK(error(kColumns + line + "\n").find("prompt_tokens") != std::string::npos);
}
