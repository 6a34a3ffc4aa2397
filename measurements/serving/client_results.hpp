#pragma once
// Results of the benchmark clients of vLLM and SGLang, which have a common ancestor: an object a
// run, one after the other in a file that runs were appended to.

#include "measurements/serving/result_json.hpp"
#include "measurements/serving/serving_measurement.hpp"

namespace rigcast {

/// `vllm bench serve --save-result`, with --save-detailed also the lengths of every request. Of
/// --metadata, gpu, quant and tensor_parallel_size are read.
/// Source: vllm/benchmarks/serve.py. Errors stick to `run`.
ServingMeasurement vllm_bench_run(const ResultObject& run);

/// SGLang's bench_serving. Source: python/sglang/bench_serving.py. Errors stick to `run`.
ServingMeasurement sglang_bench_run(const ResultObject& run);

}  // namespace rigcast
