#pragma once
// Texts of the report, independent of their layout on the screen.

#include <string>
#include <string_view>

#include "report/report.hpp"

namespace rigcast {

/// Names of parts without words that take the room of those that tell parts apart.
std::string without_makers(std::string_view parts);
std::string rig_name(const Rig& rig);                 // "RTX 3060 12GB + 2 x RTX 3090"
std::string title_text(const Report& report);         // "Llama 3.1 8B Q6_K on RTX 3060, ..."
std::string fit_text(const Report& report);           // "fits in VRAM up to 30,200 tokens"
std::string shortage_text(const MemoryPlan& memory);  // "does not fit: short by 2 GiB on GPU 0"
/// "turns of 512 + 512 tokens that fill a context of 8,192, half-way: after 3,584", or the
/// request's prompt, output and context.
std::string workload_text(const Workload& workload);
std::string prompt_text(const Workload& workload);  // "512-token prompt", "512 tokens at 8,192"
/// "load 1.03 s from page cache, 4.24 s from SSD"; "" where no start loads.
std::string load_text(const Report& report);
std::string breakdown_text(const TtftBreakdown& ttft);  // after the load: "tokenize 1.00 ms, ..."
std::string bound_text(const Bottleneck& bottleneck);   // "bound by SSD read 94 %"
std::string change_text(const Cliff& cliff);            // "26.0 -> 4.10 tok/s"
/// Where speed falls: "at 4,096 tokens" for a step, "from 4,096 to 8,192 tokens", "context beyond
/// 4,096 tokens".
std::string place_text(const Cliff& cliff);
/// The rate at which a measured run read memory, compared with the memory's own rate.
std::string read_text(const MeasuredFigures& measured);
/// The split between GPU and host: "24 of 32 layers on GPU 0, head on the CPU"; empty: no split.
std::string shared_text(const Report& report);
/// Bytes of one request: "RAM 12.0 GB, VRAM 40.0 GB, 1.20 MB to the GPU, 0.60 MB to the host".
std::string moved_text(const Report& report);
/// What a token brings back into RAM: "1.20 GB of weights from the disk and 9.40 MB of KV from swap
/// a token"; empty: nothing, or not told.
std::string paging_text(const Report& report);
std::string inputs_text(const Report& report);  // "9 spec, 1 assumed: PCI-E latency"
/// Speed and what else changes, against the report if that has a speed.
std::string effect_text(const Advice& advice, const Report& report);
/// Narrow enough for a column of a table.
std::string_view short_name(Resource resource);
/// The devices as rows of a table. In unified memory: all of it ("memory"), with what GPU and CPU
/// use, and then the part of it that the GPU may use, which is not memory besides.
std::vector<DeviceMemory> memory_rows(const Rig& rig, const MemoryPlan& plan);
/// "VRAM", "RAM", "GPU 1"; in unified memory "memory" and "GPU".
std::string device_label(const Rig& rig, const DeviceMemory& device);
/// What the second row of unified memory is.
inline constexpr std::string_view kUnifiedNote = "GPU: the part of the memory that it may use";

}  // namespace rigcast
