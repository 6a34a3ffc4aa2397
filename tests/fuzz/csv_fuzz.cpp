// Any text as tables: the first letter says whether of measurements, of settings that people noted
// beside them, or of token ids. Every field says where it stands.

#include <istream>
#include <streambuf>

#include "cli/run/token_ids.hpp"
#include "core/text/csv.hpp"
#include "measurements/read_measurements.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace rigcast;

const std::string kFile = "fuzz.csv";

void tables(std::string_view text) {
  const auto rows = parse_csv(text, kFile);
  if (!fuzz::check(rows)) return;
  for (const CsvRow& row : *rows) {
    RIGCAST_ASSERT(!row.empty());
    for (const CsvField& field : row) RIGCAST_ASSERT(field.line > 0 && field.column > 0);
  }
}

void measurements(std::string_view text) {
  std::vector<std::string> skipped;
  const auto runs = parse_measurements(text, kFile, &skipped);
  if (!fuzz::check(runs)) return;
  for (const Measurement& m : *runs) RIGCAST_ASSERT(m.value >= 0 && m.line > 0);
}

class View : public std::streambuf {
 public:
  explicit View(std::string_view text) {
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

void token_ids(std::string_view text) {
  constexpr std::int64_t kVocabulary = 128'256;
  View view(text);
  std::istream in(&view);
  const auto ids = cli::read_token_ids(in, kFile, kVocabulary);
  if (!fuzz::check(ids)) return;
  for (const std::int32_t id : *ids) RIGCAST_ASSERT(id >= 0 && id < kVocabulary);
}

// Of llama-bench and our own, so that mutations are of what stands below it.
constexpr std::string_view kBench = "model_type,n_prompt,n_gen,n_gpu_layers,avg_ts,flash_attn\n";
constexpr std::string_view kOwn =
    "gpu,model,quant,metric,value,ngl,gpu_count,ctk,batch,flash_attn\n";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input in(data, size);
  switch (in.byte()) {
    case 'm': measurements(in.rest()); break;
    case 'b': measurements(std::string(kBench) += in.rest()); break;
    case 'o': measurements(std::string(kOwn) += in.rest()); break;
    case 't': token_ids(in.rest()); break;
    default: tables(in.rest()); break;
  }
  return 0;
}
