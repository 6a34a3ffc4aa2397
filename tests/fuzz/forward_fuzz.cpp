// A forward pass of a tiny model, as a GGUF file of some architecture and format of which the input
// changes metadata, shapes, weights or any bytes. It is an error, or there are logits: any numbers.

#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "core/model/kv_bytes.hpp"
#include "engine/backends/cpu/cpu_executor.hpp"
#include "engine/gguf/model/read_model.hpp"
#include "engine/synth/synthetic_file.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace rigcast;
using namespace rigcast::engine;

constexpr const char* kArchitectures[] = {"llama", "qwen2", "qwen3", "qwen3moe"};
constexpr Bytes kMaxMemory = 256_MiB;
constexpr std::int64_t kMaxWork = 1 << 22;  // weights of a file that are computed with

// Rows are of one block at least, and of no more than a format needs.
ModelSpec tiny_spec(const char* architecture, QuantFormat format) {
  const bool wide = info(format).block_elements > 32;
  ModelSpec m;
  m.id = m.name = "tiny";
  m.source = "fuzz";
  m.architecture = architecture;
  m.layers = wide ? 1 : 2;
  m.hidden = wide ? 256 : 32;
  m.heads = wide ? 8 : 2;
  m.kv_heads = 1;
  m.head_dim = m.hidden / m.heads;
  m.ffn = m.hidden;
  m.vocabulary = 24;
  m.context = 64;
  m.qkv_bias = m.architecture == "qwen2";
  m.qk_norm = m.architecture.starts_with("qwen3");
  if (m.architecture != "qwen3moe") return m;
  m.moe.emplace();
  m.moe->experts = wide ? 2 : 4;
  m.moe->experts_used = wide ? 1 : 2;
  m.moe->expert_ffn = m.ffn;
  m.ffn = 0;
  return m;
}

std::string file_of(const ModelSpec& spec, QuantFormat format) {
  auto table = make_tensor_table(spec, *QuantMix::from_name("F32"));
  RIGCAST_ASSERT(table.ok());
  for (Tensor& t : table->tensors) {
    if (t.dimensions == 1 || t.role == TensorRole::kRouter) continue;
    t.format = format;
    t.bytes = tensor_bytes(format, t.shape[0], t.shape[1] * t.shape[2]);
  }
  const auto path = std::filesystem::temp_directory_path() /
                    ("rigcast-fuzz-" + std::to_string(::getpid()) + ".gguf");
  const auto error = write_synthetic_file(spec, *table, "F32", 1, path, {});
  RIGCAST_ASSERT(!error);
  std::ifstream in(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  std::filesystem::remove(path);
  return bytes;
}

// A whole file, and where in it values of metadata and descriptions of tensors stand.
struct Base {
  std::string bytes;
  std::vector<std::size_t> values, tensors;
  std::size_t data = 0;
};

Base make_base(const char* architecture, QuantFormat format) {
  Base base{file_of(tiny_spec(architecture, format), format), {}, {}, 0};
  const auto file = GgufFile::from_bytes(std::as_bytes(std::span(base.bytes)), "base");
  RIGCAST_ASSERT(file.ok() && load_model(*file).ok());
  for (const MetadataEntry& e : file->metadata().entries())
    base.values.push_back(std::size_t(e.offset) + 8 + e.key.size() + 4);
  for (const TensorInfo& t : file->tensors())
    base.tensors.push_back(std::size_t(t.name.data() - base.bytes.data()) + t.name.size() + 4);
  base.data = std::size_t(file->parts().front().data_begin);
  return base;
}

const Base& base_of(fuzz::Input& in) {
  static std::array<std::array<Base, kComputedFormatCount>, std::size(kArchitectures)> bases;
  const unsigned which = in.byte();
  const std::size_t a = which % 4, f = which / 4 % kComputedFormatCount;
  if (bases[a][f].bytes.empty()) bases[a][f] = make_base(kArchitectures[a], QuantFormat(f));
  return bases[a][f];
}

// Of 4 bytes: small, as it was with another byte, or extreme as a whole or a real number.
void put_value(std::string& file, std::size_t at, fuzz::Input& in) {
  constexpr std::uint32_t kExtremes[] = {0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7F800000,
                                         0xFF800000, 0x7FC00000, 0x7F7FFFFF, 0x00000001,
                                         0x7E967699, 0x00010000, 0x3F800000, 0xBF800000};
  const unsigned how = in.below(4);
  std::uint32_t value = in.byte();
  if (at + sizeof value > file.size()) return;
  if (how == 1) value = kExtremes[value % std::size(kExtremes)];
  if (how == 2) value |= in.byte() << 8 | in.byte() << 16 | in.byte() << 24;
  if (how == 3) {
    file[at + value % 4] = char(in.byte());
    return;
  }
  std::memcpy(file.data() + at, &value, sizeof value);
}

std::size_t place(fuzz::Input& in, std::size_t count) {
  const std::size_t high = in.byte();
  return (high << 8 | in.byte()) * (count / 65536 + 1) % count;
}

void change(std::string& file, const Base& base, fuzz::Input& in) {
  for (unsigned n = in.below(6); n > 0; --n) {
    switch (in.below(6)) {
      case 0: put_value(file, base.values[in.byte() % base.values.size()], in); break;
      case 1: {  // widths, the type or the offset
        const std::size_t tensor = base.tensors[in.byte() % base.tensors.size()];
        put_value(file, tensor + in.below(8) * 4, in);
        break;
      }
      case 2: put_value(file, place(in, base.data), in); break;
      case 5: file.resize(file.size() - in.byte() % file.size()); break;
      default: put_value(file, base.data + place(in, file.size() - base.data) / 2 * 2, in);
    }
    if (file.size() <= base.data) return;
  }
}

// As a mapping has them, but to the byte: what is read past the end is seen.
std::shared_ptr<std::byte> aligned_copy(std::string_view bytes) {
  constexpr std::align_val_t kPage{4096};
  std::shared_ptr<std::byte> copy(static_cast<std::byte*>(::operator new(bytes.size(), kPage)),
                                  [](std::byte* p) { ::operator delete(p, kPage); });
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return copy;
}

CpuOptions options_of(fuzz::Input& in, const ModelSpec& spec) {
  CpuOptions options;
  const unsigned how = in.byte();
  options.kv_types = {QuantFormat(how % kComputedFormatCount), QuantFormat(how / 16)};
  if (!check_kv_types(spec, options.kv_types)) options.kv_types = {};
  options.kv_block = 16;
  options.ubatch = 1 + TokenCount(in.below(4));
  options.kv_memory = [](std::size_t bytes) {
    if (Bytes{double(bytes)} > kMaxMemory) throw std::bad_alloc();
    return aligned_copy(std::string(bytes, '\0'));
  };
  options.ram = Ram(kMaxMemory);
  return options;
}

void forward(std::shared_ptr<const Model> model, fuzz::Input& in) {
  const std::int64_t vocabulary = model->spec.vocabulary;
  CpuExecutor executor(model, options_of(in, model->spec));
  for (int step = 0; step < 2; ++step) {
    std::vector<std::int32_t> tokens;
    for (unsigned n = 1 + in.below(3); n > 0; --n)
      tokens.push_back(std::int32_t(in.byte() % vocabulary));
    const Logits which = in.byte() % 2 == 0 ? Logits::kLast : Logits::kAll;
    const auto logits = executor.forward(tokens, which);
    const std::size_t rows = which == Logits::kLast ? 1 : tokens.size();
    RIGCAST_ASSERT(logits.size() == rows * std::size_t(vocabulary));
    for (const float logit : logits) fuzz::sink = fuzz::sink + (logit > 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) try {
  fuzz::Input in(data, size);
  const Base& base = base_of(in);
  std::string bytes = base.bytes;
  change(bytes, base, in);
  const auto memory = aligned_copy(bytes);
  const auto file = GgufFile::from_bytes({memory.get(), bytes.size()}, "fuzz");
  if (!fuzz::check(file)) return 0;
  auto model = load_model(*file);
  if (!fuzz::check(model) || model->spec.vocabulary * model->spec.hidden > kMaxWork) return 0;
  forward(std::make_shared<const Model>(*std::move(model)), in);
  return 0;
} catch (const ShortOfMemory&) {
  return 0;
} catch (const std::bad_alloc&) {
  return 0;
}
