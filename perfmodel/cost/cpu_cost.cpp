#include "perfmodel/cost/cpu_cost.hpp"

#include <algorithm>
#include <cmath>

#include "core/hardware/cpu_architecture.hpp"
#include "perfmodel/context/core_scaling.hpp"
#include "perfmodel/context/cpu_layout.hpp"
#include "perfmodel/context/memory_nodes.hpp"
#include "perfmodel/cost/kernel_cost.hpp"

namespace rigcast {
namespace {

constexpr double kDefaultClock = 3e9;  // assumed for a CPU whose sustained clock is not known

double used_cores(const StepContext& s) {
  const CpuPart& cpu = s.rig.cpu;
  const double share = double(nodes_in_use(s)) / cpu.nodes();
  const double threads = s.settings.threads, cores = cpu.cores * share;
  const double small = cpu.efficiency_cores * share;
  const double fast = std::min(threads, cores);
  // Threads beyond the performance cores run on efficiency cores, at about half the rate.
  const double all = fast + 0.5 * std::clamp(threads - fast, 0.0, small);
  // Two threads on one core add nothing to a kernel that keeps the core's units busy. Cores that
  // run one thread then wait for them, because work is divided evenly.
  return threads > cores + small ? std::min(all, threads / 2) : all;
}

// A CPU runs near its boost clock with few cores at work, and between boost and base clock with all
// of them.
Hertz working_clock(const StepContext& s) {
  const CpuPart& cpu = s.rig.cpu;
  constexpr double kAllCores = 0.6;  // of the way from base to boost, as coolers allow
  const auto value = [](const std::optional<Sourced<Hertz>>& f) { return f->value; };
  if (!cpu.base_clock || !cpu.boost_clock)
    return cpu.clock ? value(cpu.clock) : Hertz{kDefaultClock};
  const Hertz base = value(cpu.base_clock), boost = value(cpu.boost_clock);
  const Hertz all = cpu.clock ? value(cpu.clock) : base + (boost - base) * kAllCores;
  // Threads that no policy spreads fill one socket first.
  const bool spread =
      s.settings.numa == NumaPolicy::kDistribute || s.settings.numa == NumaPolicy::kMirror;
  const double sockets = spread ? 1.0 : std::max(1, cpu.sockets);
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
// A thread with a core to itself counts as one, if the profile tells what two threads on a core
// reach.
double int8_rate_of_core(const StepContext& s) {
  const CpuPart& cpu = s.rig.cpu;
  if (s.runtime.cpu.two_threads && cpu.core_int8) return cpu.core_int8->value.value;
  return rate_of_core(s, cpu.int8_rate, int8_flops_per_cycle(cpu));
}
// Kernels for one token may be written for narrower vectors than the core has. Where unpacking
// blocks is most of their work, each of the core's vector units does its part of it.
double kernel_rate_of_core(const StepContext& s, TokenCount tokens) {
  const double rate = int8_rate_of_core(s);
  const CpuEfficiency& e = s.runtime.cpu;
  if (tokens > kMatVecTokens) return rate;
  const double units = e.all_vector_units ? units_per_multiplier(s.rig.cpu) : 1.0;
  if (!e.vector_bytes) return rate * units;
  const double widest = int8_flops_per_cycle(s.rig.cpu, e.vector_bytes->value);
  return units * std::min(rate, working_clock(s).value * widest);
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

// True for builds whose threads share the cells of the cache instead of the heads.
bool splits_cache(const StepContext& s) {
  const auto& since = s.runtime.cpu.cache_split_since;
  return since && s.settings.build_year.value_or(since->value) >= since->value;
}

// Share of the threads that attend over the cache for one token: in older builds each has heads of
// its own.
double share_attending(const StepContext& s) {
  if (!s.runtime.cpu.cache_split_since || splits_cache(s)) return 1.0;
  return std::min(1.0, double(s.model.heads) / std::max(1.0, double(s.settings.threads)));
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
double cache_equivalent_bytes(const StepContext& s, const OpTraffic& t, TokenCount tokens,
                              double bytes) {
  constexpr double kCacheOfCore = 3e6;  // the last level: 2 to 4 MB a core, 1 to 8 seen
  const CpuEfficiency& e = s.runtime.cpu;
  if (!e.cache_stride || splits_cache(s) || tokens > kMatVecTokens || bytes <= 0) return bytes;
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
  return t.attention_flops * (1.0 + s.runtime.cpu.score.value / score) /
         s.runtime.factor_before(ChangedFigure::kCpuAttention, {}, s.settings.build_year);
}

// Time in which threads turn from one expert's matrix to the next in a batch, where each expert has
// tokens of its own to gather; one token's experts share its activations.
Seconds expert_starts(const StepContext& s, const OpTraffic& t, TokenCount tokens) {
  if (!t.routed || !s.model.moe || tokens <= kMatVecTokens) return {};
  const MixtureOfExperts& moe = *s.model.moe;
  return s.runtime.cpu.expert_start.value *
         expected_experts(moe.experts, moe.experts_used, double(tokens)) *
         double(std::max(1, t.matrices));
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

// Share of the processors that are one of two hardware threads of a core, where the operating
// system takes each for a core, as in a virtual machine: the rates of one thread and of all tell.
double paired_share(const StepContext& s) {
  const CpuPart& cpu = s.rig.cpu;
  if (!cpu.core_int8 || !cpu.int8_rate) return 0;
  const double all = cpu.int8_rate->value.value / std::max(1, cpu.cores);
  return std::clamp(2.0 * (1.0 - all / cpu.core_int8->value.value), 0.0, 1.0);
}

// Threads, those that share a core counting as less than one each. The operating system spreads
// them over processors without knowing which share a core, so one more thread is beside a given one
// with the same probability on each of the other processors.
double computing_cores(const StepContext& s, double cores) {
  const auto& pair = s.runtime.cpu.two_threads;
  if (!pair) return cores;
  const double others = std::max(1.0, double(s.rig.cpu.cores) - 1.0);
  const double shared = paired_share(s) * std::clamp((cores - 1.0) / others, 0.0, 1.0);
  return cores * (1.0 - shared * (1.0 - pair->value / 2.0));
}

double computing_cores(const StepContext& s) { return computing_cores(s, used_cores(s)); }

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

// The rate of a batch in the layout of the matrix, relative to the order in which a file has it.
double speed_of_layout(const StepContext& s, const CpuMatrix& matrix) {
  const CpuEfficiency& e = s.runtime.cpu;
  if (!e.tiles && !e.interleaved) return 1.0;
  const RuntimeProfile::Repacking* layout = cpu_layout(s, matrix);
  if (!layout) return 1.0;
  const auto& speed = layout->in_tiles() ? e.tiles : e.interleaved;
  return speed ? speed->value : 1.0;
}

// FLOP/s at which a core multiplies weights of one format, relative to quantized ones at `rate`.
double format_speed(const StepContext& s, QuantFormat format, double factor, double rate) {
  const bool as_fp32 = s.runtime.cpu.floats_as_fp32 && format_group(format) == FormatGroup::kFloat;
  return as_fp32 ? factor * fp32_rate_of_core(s) / rate : factor;
}

// The share of a core's INT8 rate that is reached: by the instructions of its level, but no less
// than by those of the levels that it includes, which are measured on other CPUs.
double int8_share(const CpuEfficiency& e, std::string_view simd) {
  const auto own = e.int8_share.find(simd);
  double share = (own != e.int8_share.end() ? own : e.int8_share.find("scalar"))->second.value;
  for (auto level = included_simd(simd); !level.empty(); level = included_simd(level))
    if (const auto lower = e.int8_share.find(level); lower != e.int8_share.end())
      share = std::max(share, lower->second.value * int8_steps(simd) / int8_steps(level));
  return share;
}

// FLOPs at the rate of all formats' kernels: those of each format divided by `factor(format)`.
template <class Factor>
double scaled_flops(const OpTraffic& t, const Factor& factor) {
  double scaled = 0, all = 0;
  for (std::size_t f = 0; f < t.weight_bytes_by_format.size(); ++f) {
    const auto format = QuantFormat(f);
    if (t.weight_bytes_by_format[f] <= 0) continue;
    const double elements = t.weight_bytes_by_format[f] * 8.0 / info(format).bits_per_weight();
    all += elements;
    scaled += elements / factor(format);
  }
  return all > 0 ? t.matmul_flops * scaled / all : t.matmul_flops;
}

// Time of a batch's products by the kernels for one token, of which `cores` reach their full rate.
Seconds one_by_one(const StepContext& s, const OpTraffic& t, double cores) {
  const CpuEfficiency& e = s.runtime.cpu;
  const double share = int8_share(e, s.rig.cpu.simd);
  const double flops = scaled_flops(t, [&](QuantFormat format) {
    return format_speed(s, format, s.runtime.format(format).cpu.value,
                        kernel_rate_of_core(s, 1) * share);
  });
  const double experts = t.routed ? e.experts.value : 1.0;
  return Seconds{flops / (e.one_token.value * experts * kernel_rate_of_core(s, 1) * cores)};
}

// The work of a few tokens' products relative to that of each token alone: a weight is unpacked
// once for all that share it.
double shared_work(const StepContext& s, const OpTraffic& t) {
  const auto& further = s.runtime.cpu.further_token;
  const double sharing = std::max(1.0, t.tokens_per_weight);
  return further ? (1.0 + (sharing - 1.0) * further->value) / sharing : 1.0;
}

// Compute time of one token, of a few, or of a batch.
CpuWork cpu_compute(const StepContext& s, const OpTraffic& t, TokenCount tokens) {
  const CpuEfficiency& e = s.runtime.cpu;
  const double share = int8_share(e, s.rig.cpu.simd);
  const double os = s.rig.os == OperatingSystem::kWindows ? s.runtime.windows.cpu.value : 1.0;
  const double beside = tokens > kMatVecTokens ? smt_contention(s) : 1.0;
  const double reached = 1.0 / (1.0 + (1.0 / share - 1.0) * beside);
  const double of_core = kernel_rate_of_core(s, tokens) * reached;
  const double rate = computing_cores(s) * of_core * e.speed.value * os;
  if (uses_blas(s, t, tokens)) {
    const double blas = used_cores(s) * fp32_rate_of_core(s);
    return {Seconds{t.matmul_flops / (blas * e.blas.value)},
            Seconds{t.attention_flops / (rate * e.attention.value)}};
  }
  double matmul = scaled_flops(t, [&](QuantFormat format) {
    const FormatEfficiency& of_format = s.runtime.format(format);
    if (tokens <= kMatVecTokens) return format_speed(s, format, of_format.cpu.value, of_core);
    return format_speed(s, format, of_format.cpu_batch.value, of_core) *
           speed_of_layout(s, {format, t.routed});
  });
  if (tokens <= kMatVecTokens)
    matmul *= shared_work(s, t) / e.one_token.value;
  else
    matmul *= 1.0 + e.half_rate_batch.value * beside / std::max(t.tokens_per_weight, 1.0);
  if (t.routed) matmul /= e.experts.value;
  if (tokens > kMatVecTokens) {
    Seconds products{matmul / rate};
    if (e.one_by_one)
      products =
          std::min(products, one_by_one(s, t, computing_cores(s) * share * e.speed.value * os));
    return {products, Seconds{batch_flops(s, t) / (rate * e.attention.value)}};
  }
  const bool quantized = cache_format(s, t).block_elements > 1;
  // Without `two_threads`, `rate` is that of threads which may share cores; a thread with a core to
  // itself is faster.
  const double alone = rate / (e.two_threads ? 1.0 : share_of_core(s).value_or(1.0)) *
                       e.cache.value * share_attending(s);
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

// What threads of other programs, which read in order, leave so many of ours, as max-min fairness
// has it: what they do not ask for, and no less than a share by requests in flight. A kernel that
// prefetches its weights has more of them than a loop of plain reads: of 16 cores, 8 decoding
// threads read 9.7 GB/s each beside 8 readers of 4.4 GB/s each, and 4 read 11.2 beside 12 of 4.9;
// together that was 0.87 and 0.94 of what reads alone reach, for which the figure allows.
BytesPerSecond beside_neighbours(const StepContext& s, BytesPerSecond core, double cores) {
  constexpr double kRequests = 1.5;  // of our thread to those of a plain reader
  const BytesPerSecond ram = s.rig.ram.bandwidth.value;
  // More threads than processors take turns.
  const int processors = std::max({1, s.rig.cpu.cores, s.rig.cpu.threads});
  const double ours = cores * kRequests, theirs = std::min(s.settings.neighbours, processors);
  return std::max(ram - core * theirs, ram * (ours / (ours + theirs)));
}

// Of weights, with so many cores at work.
BytesPerSecond cpu_read_rate(const StepContext& s, double share, double cores) {
  // A measured rate has been reached by a program, so nearly all of it can be reached again.
  constexpr double kOfMeasured = 0.95;  // also of the rate of the cores' links
  if (s.rig.ram.bandwidth.kind == SourceKind::kMeasured) share = std::max(share, kOfMeasured);
  const auto& measured = s.rig.cpu.core_read;
  const BytesPerSecond core =
      measured ? measured->value * kOfMeasured : s.runtime.cpu.read_per_thread.value;
  BytesPerSecond drawn = core * cores;
  const NumaPolicy numa = policy_in_effect(s);
  const MemoryNodes nodes = memory_nodes(s, s.rig.ram.bandwidth.value * share);
  const double working = numa == NumaPolicy::kIsolate ? 1.0 / nodes.count : 1.0;
  if (s.rig.cpu.core_links)
    drawn = std::min(drawn, s.rig.cpu.core_links->value * kOfMeasured * working);
  drawn = std::min(read_rate(nodes, numa), drawn);
  return s.settings.neighbours > 0 ? std::min(drawn, beside_neighbours(s, core, cores)) : drawn;
}

// One token's work of all used cores, for which they read bytes at the rate of the weights'.
struct TokenWork {
  CpuWork compute;
  Bytes weights, cache;
};

// Time of one token's products and reads with `cores` at work.
Seconds token_time(const StepContext& s, const TokenWork& work, double cores) {
  const double share = computing_cores(s) / computing_cores(s, cores);
  const CpuWork compute{work.compute.weights * share, work.compute.cache * share};
  const BytesPerSecond rate = cpu_read_rate(s, s.runtime.cpu.read.value, cores);
  const CpuWork read{work.weights / rate, work.cache / rate};
  return std::max(compute.total(), read.total()) + unoverlapped_time(s, compute, read);
}

// Time of one token beyond max(compute, read). The profile's figures are of one core and of all
// that may work; between them speed grows as that of cores which share a memory's bandwidth.
Seconds token_serial_time(const StepContext& s, const TokenWork& work) {
  const int all = s.rig.cpu.cores * nodes_in_use(s) / s.rig.cpu.nodes();
  const int threads = s.settings.threads;
  const BytesPerSecond rate = cpu_read_rate(s, s.runtime.cpu.read.value, used_cores(s));
  const CpuWork read{work.weights / rate, work.cache / rate};
  if (threads <= 1 || threads >= all) return unoverlapped_time(s, work.compute, read);
  const Seconds one = token_time(s, work, 1);
  if (one.value <= 0) return {};
  const double speed = speed_of_cores(threads, all, one / token_time(s, work, all));
  return std::max(Seconds{}, one / speed - std::max(work.compute.total(), read.total()));
}

}  // namespace

OpCost cpu_cost(const StepContext& s, const OpTraffic& t, TokenCount tokens) {
  OpCost cost;
  const BytesPerSecond full = s.rig.ram.bandwidth.value;
  const double rate = cpu_read_rate(s, s.runtime.cpu.read.value, used_cores(s)).value;
  const double kv = cache_bytes(s, t, nullptr);
  const double charged_kv = cache_equivalent_bytes(s, t, tokens, kv);
  cost.bytes = Bytes{t.weight_bytes() + kv + t.activation_bytes};
  cost.equivalent_bytes = Bytes{full.value * (t.weight_bytes() + charged_kv) / rate};
  const Seconds barriers = barrier_overhead(s, t, tokens) * double(std::max(1, t.matrices));
  cost.serial = vector_time(s, t);
  const CpuWork compute = cpu_compute(s, t, tokens);
  cost.compute = compute.total();
  if (tokens <= kMatVecTokens)
    cost.serial += token_serial_time(s, {compute, Bytes{t.weight_bytes()}, Bytes{charged_kv}});
  cost.overhead = barriers + expert_starts(s, t, tokens) + cost.serial;
  return corrected(s, cost, tokens, kHost);
}

}  // namespace rigcast
