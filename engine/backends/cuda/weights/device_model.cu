#include "engine/backends/cuda/weights/device_model.cuh"

#include <algorithm>
#include <deque>
#include <future>
#include <string_view>
#include <unordered_map>

#include "core/base/error.hpp"
#include "engine/architectures/architecture.hpp"
#include "engine/backends/cuda/weights/alignment.hpp"
#include "engine/backends/cuda/weights/upload.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/weights/soa_layout.cuh"
#include "engine/kernels/cuda/weights/synthesize.cuh"
#include "engine/model/file_tensors.hpp"
#include "engine/model/layer_weights.hpp"
#include "engine/model/rope.hpp"
#include "engine/synth/synth.hpp"

namespace rigcast::engine::cuda {
namespace {

constexpr std::uint64_t kPiece = 64 << 20;  // bytes of synthetic weights that are generated at once

// The repacking of one matrix, from quant blocks to the SoA layout.
struct Item {
  std::string tensor;  // name, as in a file
  const std::byte* blocks = nullptr;
  std::uint64_t first_byte = 0;  // offset in the tensor
  DeviceMatrix* to = nullptr;
  std::size_t offset = 0;  // offset in the shared allocation
  bool on_host = false;
};

// A vector's copy to the GPU: straight from where the host has it, as experts' biases of a large
// model are hundreds of megabytes.
struct Vector {
  std::span<const float> from;
  std::size_t first = 0;  // of all vectors' floats
  const float** to = nullptr;
};

// The tensor of a layer's matrix, and where in it the matrix begins: some models have several
// matrices in one tensor.
struct InTensor {
  std::string_view name;
  std::uint64_t first_byte = 0;
};
InTensor in_tensor(const ModelSpec& spec, const Layer& layer, LayerWeight weight) {
  using enum LayerWeight;
  const auto q = std::uint64_t(layer.q.bytes()), k = std::uint64_t(layer.k.bytes());
  if (spec.fused_qkv && weight == kQ) return {"attn_qkv.weight"};
  if (spec.fused_qkv && weight == kK) return {"attn_qkv.weight", q};
  if (spec.fused_qkv && weight == kV) return {"attn_qkv.weight", q + k};
  if (spec.fused_gate_up && weight == kGate) return {"ffn_up.weight"};
  if (spec.fused_gate_up && weight == kUp)
    return {"ffn_up.weight", std::uint64_t(layer.gate.bytes())};
  if (weight == kMixerIn && layer.has_grouped_gates()) return {name_of(weight)};
  const Architecture* const own = find_architecture(spec.architecture);
  return {own ? weight_name(*own, weight) : name_of(weight)};
}

std::int64_t row_bytes(const DeviceMatrix& m) {
  const QuantFormatInfo& f = info(m.format);
  return m.columns / f.block_elements * f.block_bytes;
}

// A plan of addresses for all matrices and vectors of a model that the host does not keep.
class Plan {
 public:
  Plan(const Model& from, const HostPlacement& host, DeviceModel& to) {
    to.layers.resize(from.layers.size());
    const bool tied = from.head.data == from.embedding.data;
    if (!host.head()) matrix(from.head, tied ? "token_embd.weight" : "output.weight", to.head);
    shared_ = tied && !host.head();
    if (!shared_ && !host.embedding())
      matrix(from.embedding, "token_embd.weight", to.embedding, true);
    matrix(from.input_embedding, "per_layer_token_embd.weight", to.input_embedding, true);
    matrix(from.input_projection, "per_layer_model_proj.weight", to.input_projection);
    vector(from.input_norm, to.input_norm);
    vector(from.final_norm, to.final_norm);
    vector(from.final_norm_bias, to.final_norm_bias);
    if (!host.head()) vector(from.head_bias, to.head_bias);
    for (int i = 0; i < int(from.layers.size()); ++i) {
      const Layer& own = from.layers[std::size_t(i)];
      describe(own, to.layers[std::size_t(i)]);
      if (!host.layer(i) || host.offloadable(i)) vectors(own, to.layers[std::size_t(i)]);
      if (!host.layer(i) && !host.streamed(i))
        matrices(from.spec, i, own, host.experts(i), to.layers[std::size_t(i)]);
    }
  }

  // Allocates the GPU's memory, and copies the vectors.
  void place(Vram& vram, const std::vector<RopeTable>& rope, DeviceModel& to) {
    const std::size_t floats_bytes = aligned(floats_ * sizeof(float));
    std::vector<double> frequencies;  // of all tables
    for (const RopeTable& t : rope)
      frequencies.insert(frequencies.end(), t.frequencies.begin(), t.frequencies.end());
    const std::size_t frequencies_bytes = frequencies.size() * sizeof(double);
    to.memory = vram.allocate(device_bytes_ + floats_bytes + frequencies_bytes, "weights");
    for (const Item& item : items_)
      if (!item.on_host) item.to->soa = to.memory.as<std::byte>() + item.offset;
    if (shared_) to.embedding = to.head;
    auto* floats = reinterpret_cast<float*>(to.memory.as<std::byte>() + device_bytes_);
    RIGCAST_CUDA_CALL(cudaMemset(floats, 0, floats_bytes));  // between vectors, too
    for (const Vector& v : vectors_) {
      *v.to = floats + v.first;
      RIGCAST_CUDA_CALL(cudaMemcpyAsync(floats + v.first, v.from.data(), v.from.size_bytes(),
                                        cudaMemcpyHostToDevice));
    }
    std::byte* const last = to.memory.as<std::byte>() + device_bytes_ + floats_bytes;
    RIGCAST_CUDA_CALL(
        cudaMemcpy(last, frequencies.data(), frequencies_bytes, cudaMemcpyHostToDevice));
    const auto* own = reinterpret_cast<const double*>(last);
    for (const RopeTable& t : rope) {
      to.rope.push_back({own, int(t.frequencies.size()), t.magnitude});
      own += t.frequencies.size();
    }
    // Copies may still be in progress when these calls return, and other streams do not wait for
    // them.
    RIGCAST_CUDA_CALL(cudaDeviceSynchronize());
  }

  // Begins to allocate pinned host memory, which takes as long as an upload; so both run at the
  // same time.
  using HostMemory = std::unique_ptr<PinnedPages>;
  std::future<HostMemory> pin_host(int device) const {
    return std::async(std::launch::async, [bytes = host_bytes_, device]() -> HostMemory {
      if (bytes == 0) return nullptr;
      RIGCAST_CUDA_CALL(cudaSetDevice(device));
      return std::make_unique<PinnedPages>(bytes, "input embedding");
    });
  }
  void place_on_host(HostMemory memory, DeviceModel& to) {
    if (!memory) return;
    for (const Item& item : items_)
      if (item.on_host) item.to->soa = memory->on_device() + item.offset;
    to.host_memory = std::move(memory);
  }

  std::vector<const Item*> items(bool on_host) const {
    std::vector<const Item*> out;
    for (const Item& item : items_)
      if (item.on_host == on_host) out.push_back(&item);
    return out;
  }

 private:
  // What kernels need to know of the layer beside its weights.
  static void describe(const Layer& from, DeviceLayer& to) {
    to.attention = from.attention;
    to.latent = from.latent;
    to.rule = from.rule;
    to.mixer = from.mixer;
    to.grouped_heads = from.has_grouped_heads();
    to.grouped_gates = from.has_grouped_gates();
    to.attention_gate = from.has_attention_gate();
    to.blocks = fuse(from.ops, decoder_blocks()).value();
    to.layer_norm = uses(from.ops, OpKind::kLayerNorm);
    to.parallel_ffn = from.has_parallel_ffn();
    to.parallel_mixer = from.has_parallel_mixer();
    to.norms_values = from.norms_values();
    to.keys_are_values = from.v.rows == 0 && from.k.rows > 0;
    const bool has_input = uses(from.ops, OpKind::kLayerInput);
    to.scale = has_input ? 1 : from.scale();
    to.input_scale = from.scale();
    to.mlp_function = {uses(from.ops, OpKind::kXieluMlp), from.xielu};
    // The square of what is positive is an xIELU, too.
    if (uses(from.ops, OpKind::kSquaredReluMlp)) to.mlp_function = {true, Xielu{.positive = 1}};
    // Where norms subtract the mean, each head has its own of these weights.
    const auto is_wide = [&](const std::vector<float>& norm) {
      return !to.layer_norm && std::int64_t(norm.size()) > from.attention.head_dim;
    };
    to.wide_q_norm = is_wide(from.q_norm);
    to.wide_k_norm = is_wide(from.k_norm);
    to.scales_by_position = uses(from.ops, OpKind::kScaleByPosition);
    if (from.has_gelu()) to.gate_function = GateFunction::kGelu;
    if (uses(from.ops, OpKind::kSquaredReluExperts)) to.gate_function = GateFunction::kRelu;
    if (from.has_clamped_experts()) to.gate_function = GateFunction::kClampedSwiglu;
  }

  void matrix(const Matrix& from, std::string name, DeviceMatrix& to, bool on_host = false,
              std::uint64_t first_byte = 0) {
    if (!from) return;
    to = {nullptr, from.format, from.columns, from.rows};
    std::size_t& end = on_host ? host_bytes_ : device_bytes_;
    items_.push_back({std::move(name), from.data, first_byte, &to, end, on_host});
    end += aligned(soa_bytes(from.format, from.columns, from.rows));
  }
  // `first_byte`: of the first expert in the tensor.
  void stack(const MatrixStack& from, const std::string& name, std::uint64_t first_byte,
             DeviceMatrixStack& to) {
    if (!from) return;
    to.stride = aligned(soa_bytes(from.first.format, from.first.columns, from.first.rows));
    const auto step = std::uint64_t(from.stride > 0 ? from.stride : from.first.bytes());
    // Experts are contiguous: the addresses of all follow from the first.
    for (int e = 0; e < from.count; ++e)
      matrix(from.at(e), name, e == 0 ? to.first : others_.emplace_back(), false,
             first_byte + std::uint64_t(e) * step);
  }
  void vector(const std::vector<float>& from, const float*& to) {
    if (from.empty()) return;
    vectors_.push_back({from, floats_, &to});
    floats_ += (from.size() + 63) / 64 * 64;  // every vector is aligned
  }
  void vectors(const Layer& from, DeviceLayer& to) {
    for_each_vector([&](LayerWeight, const std::vector<float>& own,
                        const float*& place) { vector(own, place); },
                    from, to);
  }
  void matrices(const ModelSpec& spec, int index, const Layer& from, bool experts_on_host,
                DeviceLayer& to) {
    const std::string block = "blk." + std::to_string(index) + ".";
    for_each_matrix(
        [&](LayerWeight weight, const Matrix& own, DeviceMatrix& place) {
          const InTensor at = in_tensor(spec, from, weight);
          matrix(own, block + std::string(at.name), place, false, at.first_byte);
        },
        from, to);
    if (experts_on_host) return;
    for_each_stack(
        [&](LayerWeight weight, const MatrixStack& own, DeviceMatrixStack& place) {
          const bool joined = weight != LayerWeight::kExpertDown && own.stride > 0;
          const bool behind = joined && weight == LayerWeight::kExpertUp;
          stack(own, block + std::string(joined ? "ffn_gate_up_exps.weight" : name_of(weight)),
                behind ? std::uint64_t(own.first.bytes()) : 0, place);
        },
        from, to);
  }

  std::vector<Item> items_;
  std::deque<DeviceMatrix> others_;  // matrices of all experts but the first
  std::vector<Vector> vectors_;
  std::size_t floats_ = 0;  // of all vectors
  std::size_t device_bytes_ = 0, host_bytes_ = 0;
  bool shared_ = false;  // the embedding is also the head's matrix
};

void end_if_told(const KeepGoing& keep_going) {
  if (keep_going && !keep_going()) throw MachineError("stopped before the weights were on the GPU");
}

// Repacks rows [first, first + rows) of an item, which have arrived as quant blocks.
void unpack(const Stream& stream, const Item& item, std::int64_t first, std::int64_t rows,
            const std::byte* blocks) {
  const DeviceMatrix& m = *item.to;
  // SoA memory is const for its readers; this is the one place that writes it.
  repack(m.format, m.columns, m.rows, {first, rows}, blocks, const_cast<std::byte*>(m.soa), stream);
}

// Uploads all bytes of these items, from a file or from memory.
void upload(Uploader& uploader, const std::vector<const Item*>& items, const GgufFile* file,
            const KeepGoing& keep_going) {
  if (items.empty()) return;
  std::vector<HostTensor> tensors;
  for (const Item* item : items) {
    const std::int64_t row = row_bytes(*item->to);
    tensors.push_back(
        {item->tensor, item->blocks, std::uint64_t(row * item->to->rows), std::uint64_t(row)});
  }
  uploader.upload(tensors, file, [&](const ArrivedPiece& piece) {
    end_if_told(keep_going);
    const Item& item = *items[piece.tensor];
    const std::uint64_t row = std::uint64_t(row_bytes(*item.to));
    unpack(piece.stream, item, std::int64_t(piece.first_byte / row),
           std::int64_t(piece.bytes / row), piece.on_device);
  });
}

// Generates an item's random blocks, as many at once as `blocks` holds.
void synthesize_item(const Stream& stream, const Item& item, const SyntheticTensor& synthetic,
                     const VramPiece& blocks, const KeepGoing& keep_going) {
  const std::uint64_t block = info(synthetic.format).block_bytes;
  const std::int64_t row = row_bytes(*item.to);
  const std::int64_t most = std::max<std::int64_t>(1, std::int64_t(kPiece) / row);
  for (std::int64_t first = 0; first < item.to->rows; first += most) {
    end_if_told(keep_going);
    const std::int64_t rows = std::min(most, item.to->rows - first);
    const std::uint64_t begin = item.first_byte + std::uint64_t(first * row);
    synthesize(stream, synthetic, begin / block, blocks.as<std::byte>(), std::uint64_t(rows * row));
    unpack(stream, item, first, rows, blocks.as<std::byte>());
  }
}

}  // namespace

DeviceModel upload_model(Vram& vram, const Model& model, const HostPlacement& host,
                         const GgufFile* file, const UploadControl& how) {
  DeviceModel out;
  Plan plan(model, host, out);
  plan.place(vram, rope_tables(model.hyper, model.rope_factors), out);
  auto pinned = plan.pin_host(vram.device());
  Uploader uploader(vram, {.readers = how.readers});
  upload(uploader, plan.items(false), file, how.keep_going);
  plan.place_on_host(pinned.get(), out);
  upload(uploader, plan.items(true), file, how.keep_going);
  return out;
}

DeviceModel synthesize_model(Vram& vram, const Model& model, const HostPlacement& host,
                             const TensorTable& tensors, std::uint64_t seed,
                             const KeepGoing& keep_going) {
  DeviceModel out;
  Plan plan(model, host, out);
  plan.place(vram, rope_tables(model.hyper, model.rope_factors), out);
  auto pinned = plan.pin_host(vram.device());
  std::unordered_map<std::string, const Tensor*> by_name;
  const TensorTable in_file = file_tensors(model.spec, tensors);
  for (const Tensor& t : in_file.tensors) by_name[t.name] = &t;
  const SynthTraits traits = synth_traits(tensors);
  const Stream stream;
  const VramPiece blocks = vram.allocate(kPiece, "upload buffers");
  for (const bool on_host : {false, true}) {
    if (on_host) plan.place_on_host(pinned.get(), out);
    for (const Item* item : plan.items(on_host))
      synthesize_item(stream, *item, synthetic_tensor(*by_name.at(item->tensor), seed, traits),
                      blocks, keep_going);
  }
  stream.wait();
  return out;
}

}  // namespace rigcast::engine::cuda
