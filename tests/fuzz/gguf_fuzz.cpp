// Any bytes as a GGUF file: read, shown, made a model of. Nothing may be read outside of them,
// overflow or take memory that the bytes do not stand for.

#include <span>

#include "engine/gguf/model/read_model.hpp"
#include "engine/gguf/model/read_spec.hpp"
#include "engine/gguf/model/read_table.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace rigcast;
using namespace rigcast::engine;
using fuzz::sink;

void show(const GgufFile& file) {
  for (const MetadataEntry& entry : file.metadata().entries()) {
    sink = sink + value_text(entry.value).size();
    if (const auto texts = entry.value.texts()) sink = sink + texts->size();
    if (const auto numbers = entry.value.numbers()) sink = sink + numbers->size();
  }
  for (const TensorInfo& t : file.tensors()) {
    sink = sink + std::size_t(t.data[0]) + std::size_t(t.data[t.bytes - 1]);
    if (file.find_tensor(t.name) != &t) __builtin_trap();
  }
}

void bind(const GgufFile& file) {
  const auto spec = read_spec(file);
  if (!fuzz::check(spec)) return;
  if (const auto table = read_tensor_table(file, *spec); fuzz::check(table)) {
    sink = sink + quant_name(file, *spec, *table).size();
    if (table->layers.size() != std::size_t(spec->layers)) __builtin_trap();
  }
  if (const auto model = load_model(file); fuzz::check(model)) sink = sink + model->layers.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = GgufFile::from_bytes(std::as_bytes(std::span(data, size)), "fuzz");
  if (!fuzz::check(file)) return 0;
  show(*file);
  bind(*file);
  return 0;
}
