#include "perfmodel/cost/cost.hpp"

#include <algorithm>
#include <cmath>

#include "core/hardware/cpu_architecture.hpp"
#include "core/hardware/gpu_architecture.hpp"
#include "perfmodel/cost/correction.hpp"
#include "perfmodel/cost/gpu_blocks.hpp"

namespace rigcast {
namespace {

// Batches of up to this many tokens run as matrix-vector products, whose arithmetic is hidden
// behind their reads.
constexpr TokenCount kMatVecTokens = 8;
constexpr double kUsualClock = 3e9;  // assumed for a CPU whose sustained clock is not known

// The FLOPs of a batch, split by the kernels that compute them. Elements are derived from the bytes
// of each format.
struct MatmulSplit {
  double floats = 0;         // share of the FLOPs on float weights
  double floats_scaled = 0;  // `floats`, each format divided by its kernels' efficiency
  double quants_scaled = 0;
  double elements = 0;  // quantized weights that are read
  double quant_bytes = 0;
};

MatmulSplit split_matmul(const StepContext& s, const OpTraffic& t) {
  MatmulSplit m;
  double all = 0;
  for (std::size_t f = 0; f < t.weight_bytes_by_format.size(); ++f) {
    const auto format = QuantFormat(f);
    const double bytes = t.weight_bytes_by_format[f];
    const double elements = bytes * 8.0 / info(format).bits_per_weight();
    const double scaled = elements / s.runtime.format(format).batch.value;
    all += elements;
    if (format_group(format) == FormatGroup::kFloat) {
      m.floats += elements;
      m.floats_scaled += scaled;
    } else {
      m.quants_scaled += scaled;
      m.elements += elements;
      m.quant_bytes += bytes;
    }
  }
  if (all <= 0) return {};
  m.floats /= all;
  m.floats_scaled /= all;
  m.quants_scaled /= all;
  return m;
}

// Bytes of the cache that attention moves. A runtime that expands grouped queries reads K and V,
// writes one copy for every query head, and reads the copies again.
double cache_bytes(const StepContext& s, const OpTraffic& t) {
  const double kv = t.kv_read_bytes + t.kv_write_bytes;
  if (!s.runtime.decode.expands_kv) return kv;
  return kv + 2.0 * (double(s.model.heads) / s.model.kv_heads) * t.kv_read_bytes;
}

// Time in which one token's query heads multiply with the cache. Memory reads hide little of it.
Seconds cache_products(const StepContext& s, const GpuPart& gpu, const OpTraffic& t) {
  const auto& decode = s.runtime.decode;
  const bool quantized = info(s.kv.types.k).block_elements > 1;
  const double cycles = (quantized ? decode.kv_cycles_quant : decode.kv_cycles).value;
  const Seconds products{t.attention_flops / 4.0 * cycles / unit_rate(gpu).value};
  const bool starts = quantized && s.runtime.blocks && t.attention_flops > 0;
  return products + (starts ? s.runtime.blocks->quantized_start.value : Seconds{});
}

// Without flash attention every score is written, scaled, normalised and read as F32 by separate
// kernels, which nothing hides.
Seconds score_passes(const StepContext& s, const GpuPart& gpu, const OpTraffic& t) {
  const double scores = t.attention_flops / (4.0 * double(s.model.head_dim));
  return Bytes{s.runtime.batch.score_bytes.value * scores} / gpu.bandwidth.value;
}

// Boards and Arm servers have small cores, which take longer to launch kernels.
bool is_slow_host(const CpuPart& cpu) {
  constexpr std::string_view kFast[] = {"intel", "amd", "apple", "nvidia"};
  return std::ranges::find(kFast, cpu.vendor) == std::end(kFast);
}

bool is_windows(const Rig& rig) {
  return rig.os == OperatingSystem::kWindows || rig.os == OperatingSystem::kWsl2;
}

// True if the split leaves work for one GPU only. Without a split, every GPU of the rig has work.
bool one_gpu_works(const StepContext& s) {
  const auto& split = s.placement.tensor_split;
  return s.rig.gpus.size() == 1 ||
         std::ranges::count_if(split, [](double share) { return share > 0; }) == 1;
}

bool captures_graphs(const StepContext& s, const GpuPart& gpu, TokenCount tokens) {
  const GpuArchitecture* known = gpu_architecture(gpu.architecture);
  const double since = s.runtime.graphs_since.value;
  return tokens == 1 && one_gpu_works(s) && s.settings.backend == Backend::kCuda &&
         (!known || known->graphs) && s.settings.build_year.value_or(since) >= since;
}

// Launch overhead: the time from one kernel's end to the start of the next.
Seconds launch_gap(const StepContext& s, const GpuPart& gpu, TokenCount tokens) {
  const BackendEfficiency& backend = s.runtime.backends[std::size_t(s.settings.backend)];
  const EraFactors era = s.runtime.era_at(s.settings.build_year);
  double scale = s.runtime.gpu_efficiency(gpu).launch.value * era.launch;
  if (captures_graphs(s, gpu, tokens)) scale *= era.graph_launch;
  if (s.runtime.blocks && tokens > kMatVecTokens) scale *= s.runtime.blocks->launch.value;
  if (is_windows(s.rig)) scale *= s.runtime.windows.launch.value;
  if (is_slow_host(s.rig.cpu)) scale *= backend.slow_host.value;
  return backend.launch.value * scale;
}

// A GPU whose power limit is low for its rate runs large products below that rate. `usual`: watts
// per TFLOP/s of a desktop card; more than twice as many watts no longer help.
double power_share(const StepContext& s, const GpuPart& gpu, FlopsPerSecond rate, double usual) {
  if (!gpu.board_power) return 1.0;
  const double watts = gpu.board_power->value.value / (rate.value / 1e12);
  return std::pow(std::clamp(watts / usual, 0.2, 2.0), s.runtime.batch.power.value);
}

// True if weights are written out as FP16 before they are multiplied: the CUDA kernels that
// multiply quantized tiles need 8-bit dot products, and older builds lack them for tensor cores.
bool expands_weights(const StepContext& s, const GpuPart& gpu) {
  if (s.settings.backend != Backend::kCuda) return false;
  const GpuArchitecture* known = gpu_architecture(gpu.architecture);
  const double since = s.runtime.tiles_since.value;
  const bool older = gpu.fp16_tensor && s.settings.build_year.value_or(since) < since;
  return older || (known && !known->int8_dot);
}

double units_of(const GpuPart& gpu) { return gpu.units ? double(*gpu.units) : 0.0; }

// Time of a batch's products on kernels whose thread-block shapes are known. For a long batch, one
// kernel per matrix writes quantized weights out as FP16, and the product reads them while it
// computes. Both pass through VRAM.
Seconds block_matmul_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                          TokenCount tokens) {
  const GpuEfficiency& e = s.runtime.gpu_efficiency(gpu);
  const BatchEfficiency& batch = s.runtime.batch;
  const BlockEfficiency& blocks = *s.runtime.blocks;
  const MatmulSplit split = split_matmul(s, t);
  const double n = double(tokens), tile = blocks.gemm_tile.value;
  const FlopsPerSecond floats = gemm_rate(gpu).value;
  const double gemm = floats.value * e.gemm.value * power_share(s, gpu, floats, 1.2) *
                      busy_in_blocks(t, n, {tile, tile, units_of(gpu)});
  const BytesPerSecond passing = gpu.bandwidth.value * batch.expand.value;
  const auto multiply = [&](Bytes halves, double share) {
    return std::max(halves / passing, Seconds{t.matmul_flops * share / gemm});
  };
  const Seconds of_floats = multiply(Bytes{t.weight_bytes() - split.quant_bytes}, split.floats);
  if (!t.routed && n >= blocks.fp16_from_batch.value) {
    const Bytes halves{2.0 * split.elements};
    const double share = split.elements > 0 ? 1.0 - split.floats : 0.0;
    const Seconds launches = launch_gap(s, gpu, tokens) * (share > 0 ? double(t.matrices) : 0.0);
    return of_floats + (Bytes{split.quant_bytes} + halves) / passing + multiply(halves, share) +
           launches;
  }
  const FlopsPerSecond quants = tile_rate(gpu).value;
  const double shared = std::max(t.tokens_per_weight, 1e-9);
  const BlockCut cut{blocks.tile_rows.value, blocks.tile_tokens.value, units_of(gpu)};
  const double tiles = quants.value * e.tiles.value * power_share(s, gpu, quants, 0.6) *
                       (t.routed ? batch.experts.value : busy_in_largest_blocks(t, n, cut)) /
                       (1.0 + batch.tile_half_rate_batch.value / shared);
  return of_floats + Seconds{t.matmul_flops * split.quants_scaled / tiles} +
         blocks.tile_start.value * double(t.matrices);
}

// Time of large products. Quantized weights are multiplied as INT8 tiles (by older builds as FP16,
// after the weights are written out), float weights as FP16. The rate falls where few tokens share
// a weight.
Seconds matmul_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                    TokenCount tokens) {
  if (s.runtime.blocks) return block_matmul_time(s, gpu, t, tokens);
  const GpuEfficiency& e = s.runtime.gpu_efficiency(gpu);
  const BatchEfficiency& batch = s.runtime.batch;
  const BackendEfficiency& backend = s.runtime.backends[std::size_t(s.settings.backend)];
  const EraFactors era = s.runtime.era_at(s.settings.build_year);
  const MatmulSplit split = split_matmul(s, t);
  const double shared = std::max(t.tokens_per_weight, 1e-9);
  const double common =
      backend.batch.value * batch.speed.value * (t.routed ? batch.experts.value : 1.0);
  const FlopsPerSecond floats = gemm_rate(gpu).value;
  const double gemm = floats.value * e.gemm.value * common * power_share(s, gpu, floats, 1.2) /
                      (1.0 + batch.gemm_half_rate_batch.value / shared);
  double seconds = t.matmul_flops * split.floats_scaled / gemm;
  if (expands_weights(s, gpu)) {
    const double moved = split.quant_bytes + 4.0 * split.elements;  // read, written, read again
    seconds += moved / (gpu.bandwidth.value.value * batch.expand.value);
    seconds += t.matmul_flops * split.quants_scaled / gemm;
  } else {
    const FlopsPerSecond quants = tile_rate(gpu).value;
    const double tiles = quants.value * e.tiles.value * era.tiles * common *
                         power_share(s, gpu, quants, 0.6) /
                         (1.0 + batch.tile_half_rate_batch.value / shared);
    seconds += t.matmul_flops * split.quants_scaled / tiles;
  }
  return Seconds{seconds};
}

// Metal leaves a discrete GPU's weights in host memory: the GPU reads them over the link, and
// without Apple's matrix instructions once for every token. See llama.cpp issues 15228 and 26949.
double weights_charged(const StepContext& s, std::size_t gpu, const OpTraffic& t, double share) {
  const GpuPart& part = s.rig.gpus[gpu];
  if (s.settings.backend != Backend::kMetal || part.unified) return t.weight_bytes() / share;
  const double readings = std::max(1.0, t.tokens_per_weight);
  return t.weight_bytes() * readings * (part.bandwidth.value / s.rig.links[gpu].h2d.value);
}

// Time in which the GPU's units unpack and multiply every byte of weights for one token. Memory
// reads hide little of it.
Seconds unpack_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t) {
  double cycles = 0;
  for (std::size_t f = 0; f < t.weight_bytes_by_format.size(); ++f)
    cycles += t.weight_bytes_by_format[f] * s.runtime.format(QuantFormat(f)).cycles.value;
  cycles *= s.runtime.gpu_efficiency(gpu).cycles.value;
  if (t.routed) cycles *= s.runtime.decode.expert_cycles.value;
  return Seconds{cycles / unit_rate(gpu).value};
}

double used_cores(const StepContext& s) {
  const CpuPart& cpu = s.rig.cpu;
  const double threads = s.settings.threads;
  const double fast = std::min(threads, double(cpu.cores));
  // Threads beyond the performance cores run on efficiency cores, at about half the rate.
  const double all = fast + 0.5 * std::clamp(threads - fast, 0.0, double(cpu.efficiency_cores));
  // Two threads on one core add nothing to a kernel that keeps the core's units busy. Cores that
  // run one thread then wait for them, because work is divided evenly.
  return threads > cpu.cores + cpu.efficiency_cores ? std::min(all, threads / 2) : all;
}

// A CPU runs near its boost clock with few cores at work, and between boost and base clock with all
// of them.
Hertz working_clock(const StepContext& s) {
  const CpuPart& cpu = s.rig.cpu;
  constexpr double kAllCores = 0.6;  // of the way from base to boost, as coolers allow
  const auto value = [](const std::optional<Sourced<Hertz>>& f) { return f->value; };
  if (!cpu.base_clock || !cpu.boost_clock) return cpu.clock ? value(cpu.clock) : Hertz{kUsualClock};
  const Hertz base = value(cpu.base_clock), boost = value(cpu.boost_clock);
  const Hertz all = cpu.clock ? value(cpu.clock) : base + (boost - base) * kAllCores;
  const double sockets = s.settings.numa_distribute ? 1.0 : std::max(1, cpu.sockets);
  const double share = std::min(1.0, used_cores(s) * sockets / std::max(1, cpu.cores));
  return all >= boost ? all : boost - (boost - all) * share;
}

// True if a BLAS computes the batch: weights of any format are expanded to FP32. Routed experts
// stay with the runtime's own kernels.
bool uses_blas(const StepContext& s, const OpTraffic& t, TokenCount tokens) {
  constexpr TokenCount kBlasTokens = 32;
  return s.settings.cpu_blas && !t.routed && tokens >= kBlasTokens;
}

// FLOP/s of one core: what a probe measured with all cores at work, or the design's FLOPs per cycle
// times the clock.
double rate_of_core(const StepContext& s, const std::optional<Sourced<FlopsPerSecond>>& measured,
                    double per_cycle) {
  if (measured) return measured->value.value / std::max(1, s.rig.cpu.cores);
  return working_clock(s).value * per_cycle;
}
double int8_rate_of_core(const StepContext& s) {
  return rate_of_core(s, s.rig.cpu.int8_rate, int8_flops_per_cycle(s.rig.cpu));
}
double fp32_rate_of_core(const StepContext& s) {
  return rate_of_core(s, s.rig.cpu.fp32_rate, fp32_flops_per_cycle(s.rig.cpu));
}

// Time of the work on weights and of the work on the cache, with all used cores.
struct CpuWork {
  Seconds weights, cache;
  Seconds total() const { return weights + cache; }
};

const QuantFormatInfo& cache_format(const StepContext& s, const OpTraffic& t) {
  return info(t.cache_format.value_or(s.kv.types.k));
}

// The number of times attention reads the cache: queries that share an element's work share one
// read.
double cache_reads(const StepContext& s, const OpTraffic& t) {
  const CpuEfficiency& e = s.runtime.cpu;
  const double elements = t.kv_read_bytes * 8.0 / cache_format(s, t).bits_per_weight();
  if (!e.cache_queries || elements <= 0) return 1;
  const double queries = t.attention_flops / (2.0 * elements);  // queries per cache element
  return std::ceil(std::round(queries) / e.cache_queries->value);
}

// Equivalent bytes: bytes of weights whose read takes as long as `bytes` of the cache.
double cache_charged(const StepContext& s, const OpTraffic& t, TokenCount tokens, double bytes) {
  constexpr double kCacheOfCore = 3e6;  // the last level: 2 to 4 MB a core, 1 to 8 seen
  const CpuEfficiency& e = s.runtime.cpu;
  if (!e.cache_stride || tokens > kMatVecTokens || bytes <= 0) return bytes;
  const double held = kCacheOfCore * std::max(1, s.rig.cpu.cores) / std::max(1, s.rig.cpu.sockets);
  const double missed = std::max(0.0, 1.0 - held / bytes);
  return bytes * e.cache_stride->value * (1.0 + missed * (cache_reads(s, t) - 1.0));
}

// FLOPs of one token's attention, plus the work of unpacking each element of the cache.
double cache_flops(const StepContext& s, const OpTraffic& t) {
  const CpuEfficiency& e = s.runtime.cpu;
  const QuantFormatInfo& format = cache_format(s, t);
  const bool quantized = format.block_elements > 1;
  const double elements = t.kv_read_bytes * 8.0 / format.bits_per_weight() * cache_reads(s, t);
  return t.attention_flops + elements * (quantized ? e.cache_element_quant : e.cache_element).value;
}

// FLOPs of a batch's attention, plus the work on each score.
double batch_flops(const StepContext& s, const OpTraffic& t) {
  const double score = 4.0 * double(std::max<std::int64_t>(1, s.model.head_dim));
  return t.attention_flops * (1.0 + s.runtime.cpu.score.value / score);
}

Seconds vector_time(const StepContext& s, const OpTraffic& t) {
  return s.runtime.cpu.element.value * (t.vector_elements / used_cores(s));
}

// Time of the barrier of all threads after one matrix.
Seconds barrier_overhead(const StepContext& s, const OpTraffic& t, TokenCount tokens) {
  const CpuEfficiency& e = s.runtime.cpu;
  const bool ahead = tokens <= kMatVecTokens && !t.routed && t.weight_bytes() > 0;
  const auto& power = ahead && e.barrier_exponent_with_prefetch ? e.barrier_exponent_with_prefetch
                                                                : e.barrier_thread_exponent;
  return e.barrier_time.value * std::pow(double(s.settings.threads), power ? power->value : 1.0);
}

bool knows_clock(const StepContext& s) {
  const auto& clock = s.rig.cpu.clock;
  return clock && clock->kind == SourceKind::kMeasured;
}

// Share of a core's multipliers that one thread has while all threads work: 1 if it has the core to
// itself, 1/2 if two threads share it; nullopt if the rig file does not tell.
std::optional<double> share_of_core(const StepContext& s) {
  const CpuPart& cpu = s.rig.cpu;
  if (!cpu.core_int8 || !cpu.int8_rate) return std::nullopt;
  return std::min(1.0, int8_rate_of_core(s) / cpu.core_int8->value.value);
}

// SMT contention: the time of a batch's work other than multiplications, relative to a thread that
// has a core to itself. Of two threads on one core, one does this work while the other multiplies.
// It applies to profiles that distinguish such threads, which `cache_per_cycle` marks.
double smt_contention(const StepContext& s) {
  return s.runtime.cpu.cache_per_cycle ? share_of_core(s).value_or(1.0) : 1.0;
}

// FLOP/s of all threads on the cache. `alone` is the rate of threads with a core each; the clock
// gives the rate of threads that share one. Where some share a core, both contribute by their part
// of the time.
double cache_rate(const StepContext& s, double alone,
                  const std::optional<Sourced<double>>& per_cycle) {
  if (!per_cycle || !knows_clock(s)) return alone;
  const double shared = used_cores(s) * working_clock(s).value * per_cycle->value;
  const double half = std::min(1.0, 2.0 * (1.0 - share_of_core(s).value_or(0.5)));
  return 1.0 / ((1.0 - half) / alone + half / shared);
}

// Compute time of one token, or of a batch.
CpuWork cpu_compute(const StepContext& s, const OpTraffic& t, TokenCount tokens) {
  const CpuEfficiency& e = s.runtime.cpu;
  const auto own = e.int8_share.find(s.rig.cpu.simd);
  const double share =
      (own != e.int8_share.end() ? own : e.int8_share.find("scalar"))->second.value;
  const double os = s.rig.os == OperatingSystem::kWindows ? s.runtime.windows.cpu.value : 1.0;
  const double beside = tokens > kMatVecTokens ? smt_contention(s) : 1.0;
  const double reached = 1.0 / (1.0 + (1.0 / share - 1.0) * beside);
  const double rate = used_cores(s) * int8_rate_of_core(s) * reached * e.speed.value * os;
  double scaled = 0, all = 0;
  if (uses_blas(s, t, tokens)) {
    const double blas = used_cores(s) * fp32_rate_of_core(s);
    return {Seconds{t.matmul_flops / (blas * e.blas.value)},
            Seconds{t.attention_flops / (rate * e.attention.value)}};
  }
  for (std::size_t f = 0; f < t.weight_bytes_by_format.size(); ++f) {
    const auto format = QuantFormat(f);
    const double elements = t.weight_bytes_by_format[f] * 8.0 / info(format).bits_per_weight();
    all += elements;
    const FormatEfficiency& of_format = s.runtime.format(format);
    scaled += elements / (tokens <= kMatVecTokens ? of_format.cpu : of_format.cpu_batch).value;
  }
  double matmul = all > 0 ? t.matmul_flops * scaled / all : t.matmul_flops;
  if (tokens <= kMatVecTokens)
    matmul /= e.one_token.value;
  else
    matmul *= 1.0 + e.half_rate_batch.value * beside / std::max(t.tokens_per_weight, 1.0);
  if (t.routed) matmul /= e.experts.value;
  if (tokens > kMatVecTokens)
    return {Seconds{matmul / rate}, Seconds{batch_flops(s, t) / (rate * e.attention.value)}};
  const bool quantized = cache_format(s, t).block_elements > 1;
  // `rate` is that of threads which may share cores; a thread with a core to itself is faster.
  const double alone = rate / share_of_core(s).value_or(1.0) * e.cache.value;
  const double of_cache =
      cache_rate(s, alone, quantized ? e.cache_quant_per_cycle : e.cache_per_cycle);
  return {Seconds{matmul / rate}, Seconds{cache_flops(s, t) / of_cache}};
}

// Time of one token beyond max(compute, read): a core that waits for memory computes nothing, so
// the longer of the two hides only a part of the shorter. Where the profile has a figure for the
// cache alone, the cache is read after the weights, and neither hides the remainder of the other.
Seconds unoverlapped_time(const StepContext& s, const CpuWork& compute, const CpuWork& read) {
  const CpuEfficiency& e = s.runtime.cpu;
  if (!e.kv_unoverlapped_share)
    return e.unoverlapped_share.value * std::min(compute.total(), read.total());
  const Seconds apart = std::max(compute.weights, read.weights) +
                        std::max(compute.cache, read.cache) -
                        std::max(compute.total(), read.total());
  return apart + e.unoverlapped_share.value * std::min(compute.weights, read.weights) +
         e.kv_unoverlapped_share->value * std::min(compute.cache, read.cache);
}

BytesPerSecond cpu_read_rate(const StepContext& s, double share) {
  // A measured rate has been reached by a program, so nearly all of it can be reached again.
  constexpr double kOfMeasured = 0.95;  // also of the rate of the cores' links
  if (s.rig.ram.bandwidth.kind == SourceKind::kMeasured) share = std::max(share, kOfMeasured);
  const auto& measured = s.rig.cpu.core_read;
  const BytesPerSecond core =
      measured ? measured->value * kOfMeasured : s.runtime.cpu.read_per_thread.value;
  BytesPerSecond drawn = core * used_cores(s);
  if (s.rig.cpu.core_links) drawn = std::min(drawn, s.rig.cpu.core_links->value * kOfMeasured);
  // Unless weights are distributed over the sockets, all of them lie in the memory of the socket
  // that loaded them.
  const double sockets = std::max(1, s.rig.cpu.sockets);
  const double further = s.settings.numa_distribute ? s.runtime.cpu.socket_share.value : 0.0;
  const double reach = (1.0 + (sockets - 1.0) * further) / sockets;
  return std::min(s.rig.ram.bandwidth.value * share * reach, drawn);
}

// A profile's shares refer to the data sheet's rate. Their share of a measured rate is larger,
// because the measured rate excludes what no kernel reaches.
double share_of(const GpuPart& part, double share) {
  constexpr double kMeasured = 0.92;  // of the data sheet
  return part.bandwidth.kind == SourceKind::kMeasured ? std::min(1.0, share / kMeasured) : share;
}

// The cost after the rig's correction: its own runs were `device_speed` times as fast as forecast.
OpCost corrected(const StepContext& s, OpCost cost, TokenCount tokens) {
  const double speed = device_speed(s, tokens);
  cost.gap = cost.gap / speed;
  cost.compute = cost.compute / speed;
  cost.charged = cost.charged / speed;
  return cost;
}

// A thread block goes over the keys one after the other. With few blocks this latency bounds a
// batch's attention, not the products.
Seconds batch_attention_time(const StepContext& s, const GpuPart& gpu, const OpTraffic& t,
                             TokenCount tokens) {
  const BackendEfficiency& backend = s.runtime.backends[std::size_t(s.settings.backend)];
  const double share = s.runtime.gpu_efficiency(gpu).attention.value * backend.attention.value;
  Seconds products{t.attention_flops / (gemm_rate(gpu).value.value * share)};
  if (!s.runtime.blocks || t.attention_flops <= 0) return products;
  const BlockEfficiency& blocks = *s.runtime.blocks;
  const double heads = double(std::max<std::int64_t>(1, s.model.kv_heads));
  const double rows = double(tokens) * double(s.model.heads) / heads;
  const double cut = std::ceil(rows / blocks.attention_rows.value) * heads;
  products = products / busy_with_blocks(cut, units_of(gpu));
  const bool quantized = info(s.kv.types.k).block_elements > 1;
  // Keys that the batch's last token sees: the mean over the batch, plus half of the batch.
  const double dim = double(s.model.head_dim);
  const double mean = t.attention_flops / (4.0 * double(s.model.heads) * double(tokens)) / dim;
  const double keys = mean + double(tokens - 1) / 2;
  const Seconds of_key = blocks.attention_key.value + blocks.attention_step.value * dim;
  return std::max(products, of_key * keys) / (quantized ? blocks.quantized_cache.value : 1.0);
}

}  // namespace

OpCost gpu_cost(const StepContext& s, std::size_t gpu, const OpTraffic& t, TokenCount tokens,
                double kernels) {
  const GpuPart& part = s.rig.gpus[gpu];
  const GpuEfficiency& e = s.runtime.gpu_efficiency(part);
  const BackendEfficiency& backend = s.runtime.backends[std::size_t(s.settings.backend)];
  const bool batched = tokens > kMatVecTokens;
  const double kv = cache_bytes(s, t);
  const bool flash = s.settings.flash_attention;
  const double without = flash || batched ? 1.0 : s.runtime.decode.kv_without_flash.value;
  const double kv_scale = without * (t.wide_heads ? s.runtime.decode.wide_heads.value : 1.0);
  OpCost cost;
  cost.bytes = t.total() + Bytes{kv - t.kv_read_bytes - t.kv_write_bytes};
  const double weights =
      weights_charged(s, gpu, t, share_of(part, e.read.value * backend.read.value));
  cost.charged =
      Bytes{weights + kv * kv_scale / share_of(part, e.kv_read.value) + t.activation_bytes};
  cost.gap = launch_gap(s, part, tokens) * kernels;
  if (!batched) {
    if (const auto& blocks = s.runtime.blocks)
      cost.charged += Bytes{weights} * blocks->token_idle.value *
                      idle_of_token(t, {blocks->token_rows.value, 1, units_of(part)});
    cost.gap += unpack_time(s, part, t) + cache_products(s, part, t) * kv_scale;
    return corrected(s, cost, tokens);
  }
  if (t.matmul_flops > 0) cost.compute = matmul_time(s, part, t, tokens);
  cost.compute += batch_attention_time(s, part, t, tokens);
  if (!flash) cost.gap += score_passes(s, part, t);
  if (const auto& blocks = s.runtime.blocks)
    cost.gap += Bytes{t.vector_elements * blocks->vector_bytes.value} / part.bandwidth.value;
  return corrected(s, cost, tokens);
}

BytesPerSecond cpu_cache_rate(const StepContext& s) {
  return cpu_read_rate(s, s.runtime.cpu.read.value) * device_speed(s, 1);
}

OpCost cpu_cost(const StepContext& s, const OpTraffic& t, TokenCount tokens) {
  OpCost cost;
  const BytesPerSecond full = s.rig.ram.bandwidth.value;
  const double rate = cpu_read_rate(s, s.runtime.cpu.read.value).value;
  const double kv = cache_bytes(s, t);
  const double charged_kv = cache_charged(s, t, tokens, kv);
  cost.bytes = t.total() + Bytes{kv - t.kv_read_bytes - t.kv_write_bytes};
  cost.charged = Bytes{full.value * (t.weight_bytes() + charged_kv) / rate};
  cost.gap = barrier_overhead(s, t, tokens) * double(std::max(1, t.matrices)) + vector_time(s, t);
  const CpuWork compute = cpu_compute(s, t, tokens);
  cost.compute = compute.total();
  if (tokens <= kMatVecTokens)
    cost.gap += unoverlapped_time(
        s, compute,
        {Bytes{t.weight_bytes()} / BytesPerSecond{rate}, Bytes{charged_kv} / BytesPerSecond{rate}});
  return corrected(s, cost, tokens);
}

}  // namespace rigcast
