// Operating points of servers, and the scenarios that stand for them.
#include "measurements/serving/resolve_serving.hpp"

#include "tests/catch.hpp"

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
  NameResolver resolver{Catalogue(RIGCAST_SOURCE_DIR)};
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

TEST_CASE("The scenario of a server's run is what a user would give", "[serving]") {
  NameResolver resolver{Catalogue(RIGCAST_SOURCE_DIR)};
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
  CHECK(refusal(start + "sglang,Qwen3-4B,bf16,RTX 3090,1,1,closed,4" + end) ==
        "the program sglang is not forecast");
  CHECK(refusal(start + "vllm,Qwen3-4B,bf16,RTX 3090,2,2,closed,4" + end).find("several GPUs") ==
        0);
  CHECK(refusal(start + "llama.cpp,Qwen3-4B,gguf-q4_k_m,RTX 3090,1,1,closed,4" + end) ==
        "the number of slots is not stated");
  CHECK(refusal(start + "vllm,Qwen3-4B,bf16,RTX 3090,1,1,closed,4" + end).empty());
  CHECK_FALSE(refusal(start + "vllm,Qwen3-4B,fp8-dynamic,RTX 3090,1,1,closed,4" + end).empty());
  CHECK_FALSE(refusal(start + "vllm,Nobody-4B,bf16,RTX 3090,1,1,closed,4" + end).empty());
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
