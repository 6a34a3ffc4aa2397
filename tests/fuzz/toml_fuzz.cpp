// Any text as TOML. The first letter says whose: a part, a model, a runtime profile, what a rig
// says of its GPU and of its speed. Whatever it holds, reading ends, and an error says what is
// wrong.

#include "core/catalogue/gpu_measured.hpp"
#include "core/hardware/rig.hpp"
#include "core/hardware/rig_correction.hpp"
#include "core/model/model_spec.hpp"
#include "core/runtime/load_profile.hpp"
#include "core/text/toml_reader.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace rigcast;

// A key and a value of its first line: --set, and defaults from the whole.
void change(const TomlDocument& document, std::string_view text) {
  TomlDocument copy = document.clone();
  const std::string_view line = text.substr(0, text.find('\n'));
  const auto equals = std::min(line.find('='), line.size());
  const std::string_view key = line.substr(0, equals);
  if (auto error = copy.set(key, line.substr(std::min(equals + 1, line.size())), "--set"))
    fuzz::check(*error);
  copy.merge_table_defaults("rig", document);
  copy.merge_defaults(document);
  copy.erase(key);
  fuzz::sink = fuzz::sink + copy.text().size();
}

void read(char whose, const TomlDocument& document, std::string_view text) {
  static fuzz::MemoryFile file;
  const TomlTable root = document.root();
  switch (whose) {
    case 'g': return static_cast<void>(read_gpu(root, "gpu"));
    case 'c': return static_cast<void>(read_cpu(root, "cpu"));
    case 'r': return static_cast<void>(read_ram(root, "ram"));
    case 's': return static_cast<void>(read_ssd(root, "ssd"));
    case 'm': return static_cast<void>(read_model_spec(root, "model"));
    case 'G': return static_cast<void>(read_gpu_measured(root));
    case 'C': return static_cast<void>(to_toml(read_corrections(root), "fuzz"));
    case 'R': return static_cast<void>(fuzz::check(load_runtime_profile(file.holding(text))));
    case 'd': return change(document, text);
    default: fuzz::sink = fuzz::sink + document.text().size();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input in(data, size);
  const char whose = char(in.byte());
  const auto document = TomlDocument::parse(in.rest(), "fuzz.toml");
  if (!fuzz::check(document)) return 0;
  read(whose, *document, in.rest());
  if (const auto error = document->error()) fuzz::check(*error);
  return 0;
}
