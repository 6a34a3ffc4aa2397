#include "bench/kernel_table/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace rigcast::bench {
namespace {

constexpr std::size_t kColumns = 110;

// What kernels do that multiply no weights, where their names do not say it.
std::string_view purpose_of(const KernelName& kernel) {
  if (kernel.text.find("(RowNorm)0") != std::string::npos) return "rounding";
  constexpr std::pair<std::string_view, std::string_view> kPurposes[] = {
      {"quantize_row", "norm"},      {"rms_norm_kernel", "norm"},
      {"layer_norm_kernel", "norm"}, {"norm_tiled_kernel", "norm"},
      {"decode_rows", "embedding"},  {"compute_angles_kernel", "angles of RoPE"},
      {"merge", "attention merged"}, {"advance_kernel", "position"},
  };
  for (const auto& [name, purpose] : kPurposes)
    if (name == kernel.function) return purpose;
  return {};
}

// Of `digits` decimals; blank where there is no value.
std::string cell(bool has_value, double value, int width, int digits) {
  return has_value ? fmt::format("{:>{}.{}f}", value, width, digits)
                   : std::string(std::size_t(width), ' ');
}

std::string name_of(const Row& row) {
  if (row.kernel.empty()) return "(no kernel)";
  return row.what.empty() ? row.kernel : fmt::format("{}: {}", row.what, row.kernel);
}

}  // namespace

void Rows::add(const Key& key, std::uint64_t from, std::uint64_t to, double bytes) {
  Row& row = rows_[key];
  if (row.calls++ == 0) std::tie(row.what, row.kernel, row.blocks, row.at_once, std::ignore) = key;
  const double ns = double(to - std::min(from, to));
  row.ns += ns;
  row.bytes += bytes;
  ns_ += ns;
  bytes_ += bytes;
}

void Rows::add(std::span<const KernelRun> runs, std::span<const Product* const> products) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const KernelRun& k = runs[i];
    const Product* const product = products.empty() ? nullptr : products[i];
    const double bytes = product ? product->bytes : 0;
    // A cache has another token every time, and windows differ by layer: that is one row.
    const bool weights = product && product->kind != ProductKind::kAttention;
    const std::string what = product ? product->what : std::string(purpose_of(k.name));
    if (k.start > before_) add({"", "", 0, 0, 0}, before_, k.start, 0);
    add({what, k.name.text, k.blocks, k.at_once, weights ? bytes : 0}, std::max(before_, k.start),
        k.end, bytes);
    before_ = std::max(before_, k.end);
  }
}

std::vector<Row> Rows::sorted() const {
  std::vector<Row> rows;
  for (const auto& [key, row] : rows_) rows.push_back(row);
  std::ranges::stable_sort(rows, std::greater{}, &Row::ns);
  return rows;
}

std::string heading(const Scale& scale) {
  return fmt::format("{:>8} {:>5} {:>5} {:>7} {:>7} {:>5} {:>4} {:>6} {:>5} {:>6}  {}", scale.unit,
                     "%", "calls", "us", "MB", "GB/s", "mem", "blocks", "once", "waves", "kernel");
}

std::string text(const Row& row, const Scale& scale) {
  const double rate = row.ns > 0 ? row.bytes / row.ns * 1e9 : 0;
  const bool reads = rate > 0, has_waves = row.blocks > 0 && row.at_once > 0;
  const double memory = scale.memory_bytes_per_s;
  std::string line = fmt::format(
      "{:>8.1f} {:>5.1f} {:>5.1f} {:>7.2f} {} {} {} {} {} {}  {}", row.ns / scale.times / 1e3,
      scale.ns > 0 ? 100 * row.ns / scale.ns : 0, double(row.calls) / scale.times,
      row.ns / row.calls / 1e3, cell(reads, row.bytes / row.calls / 1e6, 7, 2),
      cell(reads, rate / 1e9, 5, 0), cell(reads && memory > 0, rate / memory, 4, 2),
      cell(row.blocks > 0, double(row.blocks), 6, 0), cell(has_waves, row.at_once, 5, 0),
      cell(has_waves, double(row.blocks) / std::max(1, row.at_once), 6, 2), name_of(row));
  if (line.size() > kColumns) line = line.substr(0, kColumns - 2) + "..";
  return line;
}

std::string text(const TokenTotal& t) {
  const double rate = t.bytes / t.seconds;
  return fmt::format(
      "{:.0f} MB a token in {:.0f} us ({:.0f} with CUPTI): {:.0f} GB/s, {:.2f} of {:.0f}; "
      "{:.0f} tok/s, memory allows {:.0f}",
      t.bytes / 1e6, t.seconds * 1e6, t.traced_seconds * 1e6, rate / 1e9,
      rate / t.memory_bytes_per_s, t.memory_bytes_per_s / 1e9, 1 / t.seconds,
      t.memory_bytes_per_s / t.bytes);
}

}  // namespace rigcast::bench
