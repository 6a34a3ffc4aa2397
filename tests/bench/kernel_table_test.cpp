// The table of a token's kernels: what is read from their names, how many blocks run at once, which
// matrices they multiply, and the lines. Names are those of compiled kernels.

#include <fmt/format.h>

#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "bench/kernel_table/blocks_at_once.hpp"
#include "bench/kernel_table/kernel_name.hpp"
#include "bench/kernel_table/match.hpp"
#include "bench/kernel_table/products.hpp"
#include "bench/kernel_table/rows.hpp"
#include "bench/kernel_table/token_rows.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/model/layer_weights.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::bench;
using engine::Layer;
using engine::Matrix;
using engine::MatrixStack;
using engine::Model;

namespace {

constexpr GpuLimits kH200{132, 2048, 32, 65536, 228 * 1024, 1024, 128};

const std::string kCuda = "_ZN7rigcast6engine4cuda";
const std::string kNorm =
    kCuda +
    "56_GLOBAL__N__2a595460_23_quantize_activations_cu_adba8eb512quantize_rowILi1ELNS2_"
    "7RowNormE1ELb0EEEvNS2_3RowE";
const std::string kTwoFormats =
    kCuda +
    "41_GLOBAL__N__d990b3ab_9_matvec_cu_bd35c36018matvec_two_formatsILNS_11QuantFormatE10E"
    "LS4_12ENS2_6TilingILi4ELi1EEEEEvNS2_4JobsE";
const std::string kArgmax =
    kCuda +
    "41_GLOBAL__N__b11cf12b_9_argmax_cu_afd3109c13argmax_kernelEPKfiPNS1_11ArgmaxStateENS1_"
    "12ArgmaxResultE";
const std::string kAttend =
    kCuda +
    "52_GLOBAL__N__4b659544_19_decode_attention_cu_ba492c8e16attend_in_splitsILi128ELb1EEE"
    "vNS2_4TaskENS1_5CacheEPKiNS1_8PartialsE";
const std::string kGateUpTwo =
    kCuda + "43_GLOBAL__N__08222723_10_gate_up_cu_516890e619gate_up_two_formatsENS2_6GateUpE";

// A kernel with a format as its template's first argument. `file`: its namespace and name, `rest`:
// further arguments and parameters.
std::string of_format(const char* file, QuantFormat f, const char* rest) {
  return fmt::format("{}{}ILNS_11QuantFormatE{}E{}", kCuda, file, int(f), rest);
}
std::string matvec(QuantFormat f) {
  return of_format("41_GLOBAL__N__d990b3ab_9_matvec_cu_bd35c36017matvec_one_format", f,
                   "NS2_6TilingILi4ELi1EEEEEvNS2_4JobsE");
}
std::string gate_up(QuantFormat f) {
  return of_format("43_GLOBAL__N__08222723_10_gate_up_cu_516890e618gate_up_one_format", f,
                   "EEvNS2_6GateUpE");
}
std::string route(QuantFormat f) {
  return of_format("41_GLOBAL__N__7c37aea5_9_router_cu_6927673111route_token", f,
                   "EEvNS2_7RoutingE");
}
std::string down_experts(QuantFormat f) {
  return of_format("48_GLOBAL__N__7e5d4467_15_experts_down_cu_d874d3cf12down_experts", f,
                   "EEvNS2_4DownE");
}

Model model_of(const char* id, const char* quant) {
  const auto spec = Catalogue{test::source_dir()}.model(id).value();
  const auto table = make_tensor_table(spec, *QuantMix::from_name(quant)).value();
  return engine::make_synthetic_vectors(spec, table, 1).value();
}

std::vector<Product> products_of(const Model& model, TokenCount cached) {
  return products_of_token(model, {}, cached).value();
}

double bytes_of(const std::vector<Product>& products, bool attention) {
  double bytes = 0;
  for (const Product& p : products)
    if ((p.kind == ProductKind::kAttention) == attention) bytes += p.bytes;
  return bytes;
}

// All matrices of the layer, of experts as many as are chosen.
double matrix_bytes(const Model& model, const Layer& layer) {
  double bytes = double(layer.shared_router.size() * sizeof(float));
  engine::for_each_weight(
      [&](engine::LayerWeight, const auto& w) {
        using W = std::remove_cvref_t<decltype(w)>;
        if constexpr (std::is_same_v<W, Matrix>)
          bytes += w ? double(w.bytes()) : 0;
        else if constexpr (std::is_same_v<W, MatrixStack>)
          bytes += w ? double(w.first.bytes()) * model.spec.moe->experts_used : 0;
      },
      layer);
  return bytes;
}

std::string kernel_of(const Product& p) {
  const bool one = p.formats.empty() ||
                   std::ranges::all_of(p.formats, [&](auto f) { return f == p.formats.front(); });
  switch (p.kind) {
    case ProductKind::kMatvec: return one ? matvec(p.formats.front()) : kTwoFormats;
    case ProductKind::kGateUp: return one ? gate_up(p.formats.front()) : kGateUpTwo;
    case ProductKind::kRouter: return route(p.formats.front());
    case ProductKind::kExpertsDown: return down_experts(p.formats.front());
    default: return kAttend;
  }
}

// A microsecond each, and another between them.
void add_run(std::vector<KernelRun>& runs, const std::string& name, std::int64_t blocks = 1) {
  const std::uint64_t start = 2000 * (runs.size() + 1);
  runs.push_back({kernel_name(name), start, start + 1000, blocks, 528});
}

// Kernels of a token: a norm before each product.
std::vector<KernelRun> runs_of(const std::vector<Product>& products) {
  std::vector<KernelRun> runs;
  for (const Product& p : products) {
    add_run(runs, kNorm);
    add_run(runs, kernel_of(p), 640);
  }
  return runs;
}

std::string error_of(const std::vector<KernelRun>& runs, const std::vector<Product>& products) {
  const auto found = match(runs, products);
  REQUIRE_FALSE(found);
  return found.error().message;
}

const Row* row_of(const std::vector<Row>& rows, const std::string& what,
                  const std::string& kernel = {}) {
  for (const Row& r : rows)
    if (r.what == what && r.kernel.starts_with(kernel)) return &r;
  return nullptr;
}

}  // namespace

TEST_CASE("Names of kernels are read without namespaces and parameters", "[kernel_table]") {
  CHECK(kernel_name(kNorm).text == "quantize_row<1,(RowNorm)1,false>");
  CHECK(kernel_name(kNorm).formats.empty());
  const KernelName two = kernel_name(kTwoFormats);
  CHECK(two.text == "matvec_two_formats<Q4_K,Q6_K,Tiling<4,1>>");
  CHECK(two.function == "matvec_two_formats");
  CHECK(two.formats == std::vector{QuantFormat::kQ4_K, QuantFormat::kQ6_K});
  CHECK(kernel_name(kGateUpTwo).text == "gate_up_two_formats");
  CHECK(kernel_name(kAttend).text == "attend_in_splits<128,true>");
  CHECK(kernel_name("not_mangled").function == "not_mangled");
}

TEST_CASE("Blocks at once follow from threads, registers and shared memory", "[kernel_table]") {
  // 4 warps of 128 registers: 16,384 of 65,536.
  CHECK(blocks_at_once(kH200, {128, 128, 55'000}) == 4 * 132);
  CHECK(blocks_at_once(kH200, {128, 128, 0}) == 4 * 132);
  CHECK(blocks_at_once(kH200, {128, 129, 0}) == 3 * 132);  // 136 registers are given
  CHECK(blocks_at_once(kH200, {128, 32, 0}) == 16 * 132);  // 2,048 threads
  CHECK(blocks_at_once(kH200, {32, 16, 0}) == 32 * 132);   // blocks themselves
  // The driver has 1 KB of each.
  CHECK(blocks_at_once(kH200, {128, 32, 113 * 1024}) == 2 * 132);
  CHECK(blocks_at_once(kH200, {128, 32, 113 * 1024 + 1}) == 132);
  CHECK(blocks_at_once(kH200, {128, 32, 228 * 1024}) == 0);
  // Three warps of 255 registers: two of them fit into each quarter, so 8 in all.
  CHECK(blocks_at_once(kH200, {96, 255, 0}) == 2 * 132);
}

TEST_CASE("Products of a token have every matrix's bytes", "[kernel_table]") {
  const auto [id, quant] = GENERATE(table<const char*, const char*>({
      {"qwen2.5-0.5b", "F16"},
      {"qwen2.5-0.5b", "Q4_K_M"},
      {"llama-3.1-8b", "Q4_K_M"},
      {"gemma-3-4b", "Q4_K_M"},
      {"qwen3-30b-a3b", "Q4_K_M"},
      {"qwen2-57b-a14b", "Q4_K_M"},
      {"gpt-oss-20b", "MXFP4"},
  }));
  CAPTURE(id, quant);
  const Model model = model_of(id, quant);
  double expected = double(model.head.bytes());
  for (const Layer& layer : model.layers) expected += matrix_bytes(model, layer);
  CHECK(bytes_of(products_of(model, 512), false) == expected);
}

TEST_CASE("Attention reads the cached keys and values that it sees", "[kernel_table]") {
  const Model llama = model_of("llama-3.1-8b", "Q4_K_M");
  // Keys and values of 8 heads of 128, in F16, of 512 tokens in 32 layers.
  CHECK(bytes_of(products_of(llama, 512), true) == 2.0 * 8 * 128 * 2 * 512 * 32);
  CHECK(bytes_of(products_of(llama, 0), true) == 0);

  // A window of 1,024 tokens, the new one included; every sixth layer has none.
  const Model gemma = model_of("gemma-3-4b", "Q4_K_M");
  double expected = 0;
  for (int layer = 0; layer < gemma.spec.layers; ++layer)
    expected += 2.0 * 4 * 256 * 2 * (gemma.spec.sees_all_tokens(layer) ? 32768 : 1023);
  CHECK(bytes_of(products_of(gemma, 32768), true) == expected);
}

TEST_CASE("Products follow the order of a layer's kernels", "[kernel_table]") {
  const auto names = [](const Model& model, std::size_t count) {
    std::vector<std::string> all;
    for (const Product& p : products_of(model, 512)) all.push_back(p.what);
    CHECK(all.back() == "head");
    all.resize(count);
    return all;
  };
  CHECK(names(model_of("llama-3.1-8b", "Q4_K_M"), 5) ==
        std::vector<std::string>{"q k v", "attention", "output", "gate up", "down"});
  CHECK(names(model_of("qwen3-30b-a3b", "Q4_K_M"), 6) ==
        std::vector<std::string>{"q k v", "attention", "output", "router", "experts gate up",
                                 "experts down"});
}

TEST_CASE("Layers that are not covered are named", "[kernel_table]") {
  const auto latent = products_of_token(model_of("deepseek-v2-lite", "Q4_K_M"), {}, 512);
  REQUIRE_FALSE(latent);
  CHECK(latent.error().message == "layer 0 has latent attention");
  const auto mixer = products_of_token(model_of("qwen3.5-9b", "Q4_K_M"), {}, 512);
  REQUIRE_FALSE(mixer);
  CHECK(mixer.error().message == "layer 0 has a recurrent mixer");
}

TEST_CASE("Each kernel of a token finds its product", "[kernel_table]") {
  const auto [id, quant] = GENERATE(table<const char*, const char*>(
      {{"llama-3.1-8b", "Q4_K_M"}, {"llama-3.2-1b", "F16"}, {"qwen3-30b-a3b", "Q4_K_M"}}));
  CAPTURE(id, quant);
  const auto products = products_of(model_of(id, quant), 512);
  const auto runs = runs_of(products);
  const auto found = match(runs, products).value();
  REQUIRE(found.size() == runs.size());
  for (std::size_t i = 0; i < products.size(); ++i) {
    CHECK(found[2 * i] == nullptr);
    CHECK(found[2 * i + 1] == &products[i]);
  }
}

TEST_CASE("Kernels that do not fit the model are refused", "[kernel_table]") {
  const auto products = products_of(model_of("llama-3.2-1b", "F16"), 512);
  auto runs = runs_of(products);

  SECTION("one is missing") {
    runs.pop_back();
    CHECK(error_of(runs, products) == "80 of 81 products were recorded");
  }
  SECTION("one is too many") {
    add_run(runs, matvec(QuantFormat::kF16));
    CHECK(error_of(runs, products) ==
          "matvec_one_format<F16,Tiling<4,1>> comes after the last product");
  }
  SECTION("of another kind") {
    runs[3].name = kernel_name(gate_up(QuantFormat::kF16));
    CHECK(error_of(runs, products) == "product 2 is of gate_up_one_format<F16>, not attention");
  }
  SECTION("of another format") {
    runs[5].name = kernel_name(matvec(QuantFormat::kQ8_0));
    CHECK(error_of(runs, products) ==
          "product 3 is of matvec_one_format<Q8_0,Tiling<4,1>>, not output");
  }
}

TEST_CASE("Rows tell products of one kernel apart, and add up to the time", "[kernel_table]") {
  const auto products = products_of(model_of("llama-3.2-1b", "F16"), 512);
  const auto runs = runs_of(products);
  Rows rows(1000);
  rows.add(runs, match(runs, products).value());
  const auto sorted = rows.sorted();
  CHECK(rows.ns() == double(runs.back().end) - 1000);
  CHECK(rows.bytes() == bytes_of(products, false) + bytes_of(products, true));

  for (const char* what : {"q k v", "output", "down"}) {
    CAPTURE(what);
    const Row* const row = row_of(sorted, what, "matvec_one_format<F16");
    REQUIRE(row);
    CHECK(row->calls == 16);
    CHECK(row->ns == 16 * 1000);
  }
  REQUIRE(row_of(sorted, "norm"));
  CHECK(row_of(sorted, "norm")->calls == 81);
  CHECK(row_of(sorted, "norm")->bytes == 0);
  REQUIRE(row_of(sorted, "", ""));  // between kernels
  CHECK(row_of(sorted, "")->calls == 162);
  CHECK(row_of(sorted, "down")->bytes == 16.0 * 2048 * 8192 * 2);

  SECTION("without products they are by kernel") {
    Rows unknown(1000);
    unknown.add(runs, {});
    CHECK(unknown.bytes() == 0);
    CHECK(unknown.ns() == rows.ns());
    REQUIRE(row_of(unknown.sorted(), "", "matvec_one_format<F16"));
    CHECK(row_of(unknown.sorted(), "", "matvec_one_format<F16")->calls == 49);
  }
}

TEST_CASE("Tokens end with an argmax, and each has another cached one", "[kernel_table]") {
  const Model model = model_of("llama-3.2-1b", "F16");
  std::vector<KernelRun> runs;
  add_run(runs, kNorm);  // of the prompt
  add_run(runs, kArgmax);
  const std::uint64_t begin = runs.back().end;
  for (int token = 0; token < 3; ++token) {
    for (const Product& p : products_of(model, 0)) add_run(runs, kernel_of(p));
    add_run(runs, kArgmax);
  }
  const std::uint64_t end = runs.back().end;
  add_run(runs, kNorm);

  const TokenRows found = token_rows(model, {}, runs, 515);
  CHECK(found.unknown == "");
  CHECK(found.tokens == 3);
  CHECK(found.rows.ns() == double(end - begin));
  const auto rows = found.rows.sorted();
  REQUIRE(row_of(rows, "attention"));
  CHECK(row_of(rows, "attention")->bytes == 2.0 * 8 * 64 * 2 * 16 * (512 + 513 + 514));
  CHECK_FALSE(row_of(rows, "norm"));

  SECTION("one that does not fit leaves all without bytes") {
    runs[5].name = kernel_name(matvec(QuantFormat::kQ8_0));
    const TokenRows unknown = token_rows(model, {}, runs, 515);
    CHECK(unknown.unknown != "");
    CHECK(unknown.tokens == 3);
    CHECK(unknown.rows.bytes() == 0);
    CHECK(unknown.rows.ns() == found.rows.ns());
  }
  SECTION("no token, no rows") {
    CHECK(token_rows(model, {}, std::span(runs).first(20), 515).tokens == 0);
    CHECK(token_rows(model, {}, {}, 515).tokens == 0);
  }
}

TEST_CASE("A kernel that starts early counts from the end of the one before", "[kernel_table]") {
  std::vector<KernelRun> runs;
  runs.push_back({kernel_name(kNorm), 100, 300, 1, 528});
  runs.push_back({kernel_name(kAttend), 150, 450, 64, 528});
  Rows rows(100);
  rows.add(runs, {});
  const auto sorted = rows.sorted();
  REQUIRE(sorted.size() == 2);
  CHECK(sorted[0].ns == 200);
  CHECK(sorted[1].ns == 150);
}

TEST_CASE("A line has rate, share of memory's and waves", "[kernel_table]") {
  const Scale scale{2, 400'000, 4e12, "us/token"};
  const Row down{"down", "matvec_one_format<Q4_K,Tiling<4,1>>", 640, 528, 4, 80'000, 160e6};
  // 40 MB in 20 us: 2 TB/s, half of memory's; 640 of 528.
  CHECK(text(down, scale) ==
        "    40.0  20.0   2.0   20.00   40.00  2000 0.50    640   528   1.21  "
        "down: matvec_one_format<Q4_K,Tiling<4,1>>");
  const Row gap{"", "", 0, 0, 4, 4'000, 0};
  CHECK(text(gap, scale) == "     2.0   1.0   2.0    1.00" + std::string(41, ' ') + "(no kernel)");
  CHECK(heading(scale).find("kernel") == text(down, scale).find("down"));
  const Row wide{"experts gate up", std::string(200, 'x'), 100'000, 4224, 4, 80'000, 160e9};
  CHECK(text(wide, scale).size() == 110);
  const std::string total = text(TokenTotal{4e9, 2e-3, 2.1e-3, 4e12});
  CHECK(total ==
        "4000 MB a token in 2000 us (2100 with CUPTI): 2000 GB/s, 0.50 of 4000; "
        "500 tok/s, memory allows 1000");
}
