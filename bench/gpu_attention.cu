// Attention on the GPU with the shapes of an 8B model (32 query heads, 8 KV heads of 128): decode
// by the bytes of the cache, relative to a plain reading kernel in the same run; prefill by its
// products.

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "bench/gpu_seconds.cuh"
#include "engine/cuda/cuda_buffer.cuh"
#include "engine/kernels/cuda/attention/decode_attention.cuh"
#include "engine/kernels/cuda/attention/merge_partials.cuh"
#include "engine/kernels/cuda/attention/prefill_attention.cuh"
#include "engine/kernels/cuda/kv/rope_and_store.cuh"

using namespace rigcast;
using namespace rigcast::engine;
using bench::seconds;

namespace {

constexpr int kHeads = 32, kKvHeads = 8, kDim = 128, kBlockTokens = 128;

__global__ void fill_fp16(__half* to, std::size_t count, float scale) {
  const std::size_t step = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    unsigned x = unsigned(i) * 2654435761u;
    x = (x ^ x >> 15) * 2246822519u;
    to[i] = __float2half_rn((float(x >> 8) * 0x1p-23f - 1.0f) * scale);
  }
}

__global__ void read_all(const uint4* from, std::size_t count, unsigned* never) {
  const std::size_t step = std::size_t(gridDim.x) * blockDim.x;
  std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  unsigned sum = 0;
  for (; i + 3 * step < count; i += 4 * step) {
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = __ldcs(from + i + k * step);
#pragma unroll
    for (int k = 0; k < 4; ++k) sum ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  }
  if (sum == 0x5EEDF00Du) *never = sum;
}

DeviceBuffer fp16(std::size_t count, float scale) {
  DeviceBuffer buffer(count * 2);
  fill_fp16<<<1024, 256>>>(buffer.as<__half>(), count, scale);
  RIGCAST_CUDA_CALL(cudaDeviceSynchronize());
  return buffer;
}

double plain_read_rate(const Stream& stream) {
  const std::size_t bytes = std::size_t(2) << 30;
  const DeviceBuffer buffer = fp16(bytes / 2, 1);
  const DeviceBuffer never(4);
  return double(bytes) / seconds(stream, 1, [&] {
           read_all<<<132 * 8, 256, 0, stream.get()>>>(buffer.as<uint4>(), bytes / 16,
                                                       never.as<unsigned>());
         });
}

// Several layers, so that no layer finds its data in the cache from the one before.
class Context {
 public:
  Context(int tokens, int layers, QuantFormat type)
      : blocks_((tokens - 1) / kBlockTokens + 1),
        layers_(layers),
        cache_(shape(type)),
        memory_(fp16(std::size_t(cache_.layer_bytes() * layers * blocks_) / 2, 1)),
        list_(sizeof(std::byte*) * std::size_t(blocks_)),
        position_(sizeof(int)) {
    // Bytes with finite scales and valid codes.
    if (type != QuantFormat::kF16)
      RIGCAST_CUDA_CALL(cudaMemset(memory_.as(), 0x2C, memory_.bytes()));
    std::vector<std::byte*> list;
    for (int b = 0; b < blocks_; ++b)
      list.push_back(memory_.as<std::byte>() + b * layers * cache_.layer_bytes());
    RIGCAST_CUDA_CALL(cudaMemcpy(list_.as(), list.data(), list_.bytes(), cudaMemcpyHostToDevice));
    cache_.blocks = list_.as<std::byte*>();
  }

  const cuda::Cache& cache() const { return cache_; }
  int layers() const { return layers_; }
  double token_bytes() const { return double(cache_.layer_bytes()) / kBlockTokens; }
  const int* position(int value) const {
    RIGCAST_CUDA_CALL(cudaMemcpy(position_.as(), &value, sizeof value, cudaMemcpyHostToDevice));
    return position_.as<int>();
  }

 private:
  static cuda::Cache shape(QuantFormat type) {
    cuda::Cache c;
    c.block_tokens = kBlockTokens;
    c.kv_heads = kKvHeads;
    c.head_dim = kDim;
    c.k_type = c.v_type = type;
    c.k_row = c.v_row = int(tensor_bytes(type, kDim, 1));
    return c;
  }

  int blocks_, layers_;
  cuda::Cache cache_;
  DeviceBuffer memory_, list_, position_;
};

constexpr int kWidth = (kHeads + 2 * kKvHeads) * kDim;

// Projections of tokens, and the parameters for storing them.
struct Projected {
  DeviceBuffer rows, rope_cos_sin;

  explicit Projected(int tokens)
      : rows(fp16(std::size_t(tokens) * kWidth * 2, 0.2f)),
        rope_cos_sin(fp16(std::size_t(tokens) * kDim / 2 * sizeof(cuda::RopeAngle) / 2, 0.2f)) {}

  cuda::NewTokenInputs placement() const {
    cuda::NewTokenInputs p;
    p.q = {rows.as<float>(), kWidth, nullptr};
    p.k = {rows.as<float>() + kHeads * kDim, kWidth, nullptr};
    p.v = {rows.as<float>() + (kHeads + kKvHeads) * kDim, kWidth, nullptr};
    p.heads = kHeads;
    p.rope_dims = kDim;
    p.rope_cos_sin = rope_cos_sin.as<cuda::RopeAngle>();
    return p;
  }
};

struct Scratch {
  Projected projected{1};
  DeviceBuffer m{512 * kHeads * 4}, l{512 * kHeads * 4}, o{512 * kHeads * kDim * 4};
  DeviceBuffer q{kHeads * kDim}, scale{kHeads * kDim / 8}, sum16{kHeads * kDim / 4};
  DeviceBuffer arrivals{kHeads * 4};
};

// Who merges partial results: the attention's last thread blocks, if they are not too many, another
// kernel, or none.
enum class Merge { kTogether, kApart, kNone };

struct Decode {
  int tokens = 0, splits = 0;
  bool inputs_ready = false;
  Merge merge = Merge::kApart;
  int max_tokens = 0;
};

double decode_seconds(const Stream& stream, const Context& context, const Decode& d) {
  const Scratch s;
  RIGCAST_CUDA_CALL(cudaMemset(s.arrivals.as(), 0, s.arrivals.bytes()));
  const int* position = context.position(d.tokens - 1);
  const cuda::Partials partials{s.m.as<float>(), s.l.as<float>(), s.o.as<float>()};
  cuda::DecodeAttention attention{s.projected.placement(), 0, d.inputs_ready};
  attention.max_tokens = d.max_tokens;
  const cuda::Outputs out{{s.q.as<std::int8_t>(), s.scale.as<float>(), s.sum16.as<float>()}};
  return seconds(stream, context.layers(), [&] {
    for (int layer = 0; layer < context.layers(); ++layer) {
      if (d.merge == Merge::kTogether) {
        cuda::attend_and_merge(stream, attention, context.cache(), layer, d.splits, position,
                               partials, {out, nullptr, s.arrivals.as<unsigned>()});
        continue;
      }
      cuda::attend_partially(stream, attention, context.cache(), layer, d.splits, position,
                             partials);
      if (d.merge == Merge::kApart)
        cuda::merge_partials(stream, partials, d.splits, kHeads, kDim, out);
    }
  });
}

struct Machine {
  int units = 0;
  double read_rate = 0;
};

// Prints microseconds: with a merge, with Start::kEarly for the cached context as well, that
// without a merge, with a merge in the same kernel, and for a context whose length is known.
void decode(const Stream& stream, const Machine& gpu, int tokens, int layers, QuantFormat type,
            bool by_splits) {
  const Context context(tokens, layers, type);
  const int chosen =
      cuda::attention_splits(tokens, kKvHeads, kDim, gpu.units, type == QuantFormat::kF16);
  std::vector<int> all{chosen};
  if (by_splits) all = {4, 8, 16, 33, 49, 66};
  for (const int splits : all) {
    const double t = decode_seconds(stream, context, {tokens, splits});
    const double inputs_ready = decode_seconds(stream, context, {tokens, splits, true});
    const double attends = decode_seconds(stream, context, {tokens, splits, true, Merge::kNone});
    const double together =
        decode_seconds(stream, context, {tokens, splits, true, Merge::kTogether});
    const double known =
        decode_seconds(stream, context, {tokens, splits, true, Merge::kTogether, tokens});
    const double rate = context.token_bytes() * tokens / t;
    std::printf(
        "decode %6d %-5s %3d splits%c %7.2f us %7.1f GB/s %4.2f settled %7.2f us %4.2f, "
        "not merged %7.2f us, together %7.2f us, of known length %7.2f us\n",
        tokens, info(type).name.data(), splits, splits == chosen ? '*' : ' ', t * 1e6, rate / 1e9,
        rate / gpu.read_rate, inputs_ready * 1e6, rate * t / inputs_ready / gpu.read_rate,
        attends * 1e6, together * 1e6, known * 1e6);
  }
}

void prefill(const Stream& stream, int tokens, QuantFormat type) {
  constexpr int kLayers = 4;
  const Context context(tokens, kLayers, type);
  const std::size_t width = kHeads * kDim;
  const DeviceBuffer queries = fp16(std::size_t(tokens) * width, 0.2f);
  const DeviceBuffer out(std::size_t(tokens) * width * 2);
  const int* position = context.position(0);
  const double t = seconds(stream, kLayers, [&] {
    for (int layer = 0; layer < kLayers; ++layer)
      cuda::attend_causally(stream, {queries.as<__half>(), tokens, kHeads, 0}, context.cache(),
                            layer, position, {out.as<__half>()});
  });
  const double products = 2.0 * double(width) * double(tokens) * double(tokens + 1);
  std::printf("prefill %6d %-5s %9.2f us %6.1f TFLOP/s\n", tokens, info(type).name.data(), t * 1e6,
              products / t / 1e12);
}

// Prefill of few tokens after many cached ones.
void prefill_after(const Stream& stream, int tokens, int cached, QuantFormat type) {
  constexpr int kLayers = 4;
  const Context context(cached + tokens, kLayers, type);
  const std::size_t width = kHeads * kDim;
  const DeviceBuffer queries = fp16(std::size_t(tokens) * width, 0.2f);
  const DeviceBuffer out(std::size_t(tokens) * width * 2);
  const int* position = context.position(cached);
  const std::int64_t room = 512 * std::int64_t(kWidth);  // floats, as batches of 512 have them
  const DeviceBuffer partials(std::size_t(room) * 4);
  const auto time = [&](int splitting) {
    cuda::PrefillAttention a{queries.as<__half>(), tokens, kHeads, 0};
    a.partials = partials.as<float>();
    a.partial_floats = room;
    a.context = splitting * (cached + tokens);
    return seconds(stream, kLayers, [&] {
      for (int layer = 0; layer < kLayers; ++layer)
        cuda::attend_causally(stream, a, context.cache(), layer, position, {out.as<__half>()});
    });
  };
  const double t = time(1), whole = time(0);
  const double products = 4.0 * double(width) * tokens * (cached + tokens / 2.0);
  std::printf("prefill %6d after %6d %-5s %9.2f us %6.1f TFLOP/s, without splits %9.2f us\n",
              tokens, cached, info(type).name.data(), t * 1e6, products / t / 1e12, whole * 1e6);
}

void rope_and_store(const Stream& stream, int tokens) {
  constexpr int kLayers = 8;
  const Context context(tokens, kLayers, QuantFormat::kF16);
  const Projected projected(tokens);
  const DeviceBuffer queries(std::size_t(tokens) * kHeads * kDim * 2);
  const int* position = context.position(0);
  const double t = seconds(stream, kLayers, [&] {
    for (int layer = 0; layer < kLayers; ++layer)
      cuda::rope_and_store(stream, projected.placement(), context.cache(), layer, tokens,
                           {position}, queries.as<__half>());
  });
  const double bytes = double(tokens) * kWidth * 6;
  std::printf("place   %6d tokens F16   %20.2f us %8.1f GB/s\n", tokens, t * 1e6, bytes / t / 1e9);
}

}  // namespace

// Arguments: any of decode, splits, prefill, after and place, and of the cache's types; none: all
// but splits.
int main(int argc, char** argv) {
  const std::vector<std::string> only(argv + 1, argv + argc);
  const auto named = [&](std::string_view name) {
    return std::ranges::find(only, name) != only.end();
  };
  const bool parts =
      named("decode") || named("splits") || named("prefill") || named("after") || named("place");
  const bool types = named("F16") || named("Q8_0") || named("Q4_0");
  const auto wanted = [&](std::string_view part) { return !parts || named(part); };
  const Stream stream;
  int device = 0;
  Machine gpu;
  RIGCAST_CUDA_CALL(cudaGetDevice(&device));
  RIGCAST_CUDA_CALL(cudaDeviceGetAttribute(&gpu.units, cudaDevAttrMultiProcessorCount, device));
  gpu.read_rate = plain_read_rate(stream);
  std::printf("plain read %.1f GB/s, %d multiprocessors\n", gpu.read_rate / 1e9, gpu.units);
  const bool splits = named("splits");
  for (const QuantFormat type : {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0}) {
    if (types && !named(info(type).name)) continue;
    if (wanted("decode") || splits) {
      decode(stream, gpu, 512, 128, type, splits);
      decode(stream, gpu, 8192, 16, type, splits);
      decode(stream, gpu, 32768, 6, type, splits);
    }
    if (wanted("prefill"))
      for (const int tokens : {512, 2048, 4096, 16384}) prefill(stream, tokens, type);
    if (wanted("after"))
      for (const int tokens : {16, 32, 64, 128, 256, 512, 1024, 4096})
        for (const int cached : {4096, 16384}) prefill_after(stream, tokens, cached, type);
  }
  if (wanted("place"))
    for (const int tokens : {1, 512, 4096}) rope_and_store(stream, tokens);
}
