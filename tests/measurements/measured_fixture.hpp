#pragma once
// Small files of measurements in every form that is read, invented after the real ones.

#include <string>

namespace rigcast::fixtures {

inline const std::string kBenchmarkCsv =
    "id,source,source_date,tool,tool_build,gpu,gpu_count,cpu,ram_type,ram_gbps_if_stated,"
    "pcie_if_stated,os,model,params_b,quant,size_gib_if_stated,ngl,n_layers,n_cpu_moe,kv_location,"
    "ctk,ctv,flash_attn,threads,batch,ubatch,depth,n_prompt,n_gen,metric,value,stdev,notes\n"
    "A1,\"somebody, somewhere\",2024-05-12,llama-bench,b228aba9 (2860),RTX 3090 24GB,1,"
    "Ryzen 9 7950X,DDR5-6000 dual channel 64GB,,PCIe 4.0 x16,Ubuntu 22.04,Llama-3-8B,8.03,Q4_K_M,"
    "4.58,99,32,,gpu,f16,f16,0,8,2048,512,0,,128,tg_tps,120.5,0.4,full offload\n"
    "A2,elsewhere,2025-08,llama-bench,,none,0,EPYC 9355,12ch DDR5-6000 ECC,,,,Qwen3-30B-A3B,30.5,"
    "Q8_0,,0,48,,cpu,q8_0,q8_0,1,32,,,4096,512,,pp_tps,310,,\"says \"\"fast\"\"; CAUTION\"\n";

inline const std::string kBenchCsv =
    "build_commit,build_number,cpu_info,gpu_info,backends,model_filename,model_type,model_size,"
    "model_n_params,n_batch,n_ubatch,n_threads,type_k,type_v,n_gpu_layers,n_cpu_moe,split_mode,"
    "main_gpu,no_kv_offload,flash_attn,tensor_split,use_mmap,n_prompt,n_gen,n_depth,test_time,"
    "avg_ns,stddev_ns,avg_ts,stddev_ts\n"
    "\"deadbeef\",\"6118\",\"AMD Ryzen 9 7950X 16-Core Processor\",\"NVIDIA GeForce RTX 3090, "
    "NVIDIA "
    "GeForce RTX 3090\",\"CUDA\",\"models/Qwen3-30B-A3B-Q4_K_M.gguf\",\"qwen3moe 30B.A3B Q4_K - "
    "Medium\",\"18556686912\",\"30532122624\",\"2048\",\"512\",\"16\",\"q8_0\",\"q8_0\",\"99\","
    "\"12\","
    "\"layer\",\"0\",\"1\",\"1\",\"3.00/"
    "1.00\",\"0\",\"512\",\"0\",\"4096\",\"2025-08-09T10:11:12Z\","
    "\"100\",\"1\",\"2000.5\",\"3.25\"\n"
    "\"deadbeef\",\"6118\",\"\",\"NVIDIA GeForce RTX 3090\",\"CUDA\",\"m.gguf\",\"llama 8B Q8_0\","
    "\"8500000000\",\"8030000000\",\"2048\",\"512\",\"16\",\"f16\",\"f16\",\"-1\",\"0\",\"layer\","
    "\"0\",\"0\",\"0\",\"0.00\",\"1\",\"512\",\"128\",\"0\",\"2025-08-09T10:11:13Z\",\"100\",\"1\","
    "\"90\",\"1\"\n";

inline const std::string kBenchJson = R"([
  {
    "build_commit": "deadbeef", "build_number": 5163, "cpu_info": "Apple M2 Ultra",
    "gpu_info": "Apple M2 Ultra", "backends": "Metal,BLAS",
    "model_filename": "/models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
    "model_type": "llama 8B Q4_K - Medium", "model_size": 4912898304,
    "model_n_params": 8030261312, "n_batch": 2048, "n_ubatch": 512, "n_threads": 16,
    "type_k": "f16", "type_v": "f16", "n_gpu_layers": -1, "split_mode": "layer", "main_gpu": 0,
    "no_kv_offload": false, "flash_attn": false, "tensor_split": "0.00", "use_mmap": true,
    "n_prompt": 0, "n_gen": 128, "n_depth": 0, "test_time": "2025-04-24T11:58:50Z",
    "avg_ns": 72135640, "stddev_ns": 1453752, "avg_ts": 91.5, "stddev_ts": 0.5,
    "samples_ts": [ 91.0, 92.0 ]
  },
  { "model_type": "llama 8B Q4_K - Medium", "n_prompt": 64, "n_gen": 64, "avg_ts": 1 }
]
)";

inline const std::string kBenchJsonLines =
    "{\"cpu_info\": \"EPYC 9355\", \"gpu_info\": \"\", \"backends\": \"CPU\", \"model_filename\": "
    "\"phi-4-Q8_0.gguf\", \"model_type\": \"phi3 14B Q8_0\", \"n_gpu_layers\": 99, \"n_prompt\": "
    "256, "
    "\"n_gen\": 0, \"avg_ts\": 55.25}\n"
    "\n"
    "{\"cpu_info\": \"EPYC 9355\", \"gpu_info\": \"\", \"backends\": \"CPU\", \"model_filename\": "
    "\"phi-4-Q8_0.gguf\", \"model_type\": \"phi3 14B Q8_0\", \"n_gpu_layers\": 99, \"n_prompt\": "
    "0, "
    "\"n_gen\": 16, \"avg_ts\": 5.5}\n";

}  // namespace rigcast::fixtures
