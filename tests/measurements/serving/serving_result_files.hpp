#pragma once
// Small files as benchmarks of servers write them: their keys, invented figures.

#include <string>

namespace rigcast::fixtures {

// vllm bench serve --save-result (vllm/benchmarks/serve.py).
inline const std::string kVllmBench =
    R"({"date": "20260110-101112", "endpoint_type": "openai", "backend": "openai", "label": null,)"
    R"( "model_id": "meta-llama/Llama-3.1-8B-Instruct", "tokenizer_id": "meta-llama/Llama-3.1-8B",)"
    R"( "num_prompts": 200, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 16,)"
    R"( "duration": 41.2, "completed": 200, "failed": 0, "total_input_tokens": 204800,)"
    R"( "total_output_tokens": 25600, "request_throughput": 4.85, "request_goodput": null,)"
    R"( "output_throughput": 621.4, "total_token_throughput": 5592.2,)"
    R"( "max_output_tokens_per_s": 832.0, "max_concurrent_requests": 32, "rtfx": 0.0,)"
    R"( "mean_ttft_ms": 412.2, "median_ttft_ms": 380.1, "std_ttft_ms": 201.0, "p99_ttft_ms":)"
    R"( 1102.5, "mean_tpot_ms": 22.6, "median_tpot_ms": 22.9, "std_tpot_ms": 1.2, "p99_tpot_ms":)"
    R"( 25.1, "mean_itl_ms": 22.6, "median_itl_ms": 18.9, "std_itl_ms": 20.1, "p99_itl_ms":)"
    R"( 130.2})";

// python -m sglang.bench_serving --output-file (python/sglang/bench_serving.py).
inline const std::string kSglangBench =
    R"({"tag": null, "backend": "sglang", "dataset_name": "random", "request_rate": Infinity,)"
    R"( "max_concurrency": 8, "sharegpt_output_len": null, "random_input_len": 512,)"
    R"( "random_output_len": 128, "random_range_ratio": 0.5, "server_info": {"model_path":)"
    R"( "Qwen/Qwen3-8B", "tp_size": 1, "mem_fraction_static": 0.85, "max_running_requests": null},)"
    R"( "duration": 20.5, "completed": 100, "total_input_tokens": 38412, "total_output_tokens":)"
    R"( 9607, "total_output_tokens_retokenized": 9590, "request_throughput": 4.88,)"
    R"( "input_throughput": 1873.8, "output_throughput": 468.6, "mean_e2e_latency_ms": 1600.0,)"
    R"( "median_e2e_latency_ms": 1580.0, "p99_e2e_latency_ms": 2400.5, "mean_ttft_ms": 101.5,)"
    R"( "median_ttft_ms": 90.5, "p99_ttft_ms": 310.5, "mean_tpot_ms": 12.5, "median_tpot_ms":)"
    R"( 12.25, "p99_tpot_ms": 15.5, "mean_itl_ms": 12.5, "median_itl_ms": 11.5, "p95_itl_ms":)"
    R"( 14.25, "p99_itl_ms": 45.5, "concurrency": 7.8, "accept_length": null})"
    "\n\n"
    R"({"backend": "sglang", "dataset_name": "sharegpt", "request_rate": 2.5, "max_concurrency":)"
    R"( null, "completed": 50, "total_input_tokens": 11000, "total_output_tokens": 10001,)"
    R"( "total_output_tokens_retokenized": 9990, "output_throughput": 480.5, "mean_ttft_ms": 60.5,)"
    R"( "median_ttft_ms": 55.5, "p99_ttft_ms": NaN, "median_tpot_ms": 9.5, "accept_length": 3.1})"
    "\n";

// llama-batched-bench --output-format jsonl, and without (tools/batched-bench/batched-bench.cpp).
inline const std::string kBatchedJsonl =
    R"({"n_kv_max": 36864, "n_batch": 2048, "n_ubatch": 256, "flash_attn": 1, "is_pp_shared": 0,)"
    R"( "n_gpu_layers": 99, "n_threads": 8, "n_threads_batch": 8, "pp": 512, "tg": 32, "pl": 1,)"
    R"( "n_kv": 544, "t_pp": 0.104, "speed_pp": 4923.076923, "t_tg": 0.281, "speed_tg":)"
    R"( 113.879003, "t": 0.385, "speed": 1412.987013})"
    "\n"
    R"({"n_kv_max": 36864, "n_batch": 2048, "n_ubatch": 256, "flash_attn": 1, "is_pp_shared": 0,)"
    R"( "n_gpu_layers": 99, "n_threads": 8, "n_threads_batch": 8, "pp": 512, "tg": 32, "pl": 8,)"
    R"( "n_kv": 4352, "t_pp": 0.780, "speed_pp": 5251.282051, "t_tg": 0.512, "speed_tg":)"
    R"( 500.000000, "t": 1.292, "speed": 3368.421053})";

inline const std::string kBatchedTable =
    R"(
main: n_kv_max = 36864, n_batch = 2048, n_ubatch = 256, )"
    R"(flash_attn = 1, is_pp_shared = 0, n_gpu_layers = 99, n_threads = 8, n_threads_batch = 8
|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   512 |     32 |    1 |    544 |    0.104 |  4923.08 |    0.281 |   113.88 |    0.385 |  1413.00 |
|   512 |     32 |    8 |   4352 |    0.780 |  5251.28 |    0.512 |   500.00 |    1.292 |)"
    R"(  3368.42 |)";

// guidellm benchmark run (benchmarks.json): runs of 0.2's layout, of 0.4's and of 0.7's.
inline const std::string kGuideLlm =
    R"({"metadata": {"version": 1}, "args": {"target": "http://localhost:8000", "model":)"
    R"( "Qwen/Qwen3-8B"},
 "benchmarks": [
  {"args": {"strategy": {"type_": "synchronous"}}, "metrics": {
    "time_to_first_token_ms": {"successful": {"mean": 50, "percentiles": {"p50": 49}}},
    "prompt_token_count": {"successful": {"mean": 512, "std_dev": 0}},
    "output_token_count": {"successful": {"mean": 128, "std_dev": 0}}}},
  {"type_": "generative_benchmark", "config": {"strategy": {"type_": "concurrent", "streams": 8}},
   "scheduler_metrics": {"requests_made": {"successful": 100, "errored": 0, "total": 100}},
   "metrics": {
    "time_to_first_token_ms": {"successful": {"mean": 80, "median": 75, "percentiles":)"
    R"( {"p95": 120}}},
    "time_per_output_token_ms": {"successful": {"mean": 13}},
    "inter_token_latency_ms": {"successful": {"mean": 11, "percentiles": {"p99": 14}}},
    "request_latency": {"successful": {"mean": 1.5, "percentiles": {"p50": 1.4}}},
    "output_tokens_per_second": {"successful": {"mean": 640}},
    "prompt_token_count": {"successful": {"mean": 512, "std_dev": 0.0}},
    "output_token_count": {"successful": {"mean": 128, "std_dev": 20.0}}}},
  {"config": {"strategy": {"kind": "constant", "rate": 3.5}}, "metrics": {
    "prompt_token_count": {"successful": {"mean": 512}},
    "output_token_count": {"successful": {"mean": 128}}}},
  {"config": {"strategy": {"type_": "throughput"}}, "metrics": {}}]}
)";

// aiperf profile (profile_export_aiperf.json).
inline const std::string kAiPerf = R"({
  "schema_version": "1.3", "aiperf_version": "0.10.0",
  "request_throughput": {"unit": "requests/sec", "avg": 0.8233},
  "request_latency": {"unit": "sec", "avg": 2.4135, "p50": 2.43175, "p99": 2.43945},
  "request_count": {"unit": "requests", "avg": 10.0},
  "time_to_first_token": {"unit": "ms", "avg": 195.84, "p50": 175.05, "p90": 251.45, "p99": 253.45},
  "inter_token_latency": {"unit": "ms", "avg": 35.2, "p50": 34.73, "p90": 35.95, "p99": 35.96},
  "output_token_throughput": {"unit": "tokens/sec", "avg": 52.69},
  "output_sequence_length": {"unit": "tokens", "avg": 64.0, "std": 0.0},
  "input_sequence_length": {"unit": "tokens", "avg": 256.0, "std": 0.0},
  "input_config": {"endpoint": {"model_names": ["Qwen/Qwen3-8B"], "type": "chat",
    "streaming": true}, "loadgen": {"concurrency": 4}},
  "was_cancelled": false, "error_summary": []
})";

}  // namespace rigcast::fixtures
