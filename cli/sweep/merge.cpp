#include "cli/sweep/merge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <utility>

namespace rigcast::cli {
namespace {

// Why two shards do not belong together; nullopt: they do.
std::optional<Error> compare(const ShardOutput& a, const ShardOutput& b) {
  const auto differ = [&](const char* what, const char* hint) {
    return bad_input(fmt::format("{} and {}: {}", a.file, b.file, what), hint);
  };
  const ShardFile &x = a.about, &y = b.about;
  if (x.sweep_id != y.sweep_id || x.keys != y.keys || x.all.scenarios != y.all.scenarios ||
      x.all.piece_size != y.all.piece_size)
    return differ("shards of different sweeps", "leave out what is of another sweep");
  if (x.shard.count != y.shard.count)
    return bad_input(fmt::format("{} is shard {}/{}, {} is shard {}/{}", a.file, x.shard.index,
                                 x.shard.count, b.file, y.shard.index, y.shard.count),
                     "all must be of one N: run those of another again");
  if (x.format != y.format)
    return differ("one has CSV, the other JSON", "run one of them again with the other --format");
  if (x.program_id != y.program_id)
    return differ("made by different programs, whose figures may differ",
                  "run the older one again, with the program that made the other");
  if (x.inputs_id != y.inputs_id)
    return differ("made with different files of rigs, models, runtimes or the catalogue",
                  "run the older one again, with the files of the other");
  return std::nullopt;
}

using ShardsByIndex = std::map<int, ShardOutput>;

Error missing(const ShardsByIndex& shards, int count) {
  constexpr std::size_t kMaxNamed = 20;
  std::vector<std::string> names;
  for (int i = 1; i <= count && names.size() <= kMaxNamed; ++i)
    if (!shards.contains(i)) names.push_back(fmt::format("{}/{}", i, count));
  const bool has_more = names.size() > kMaxNamed;
  if (has_more) names.back() = "...";
  const int lack = count - int(shards.size());
  return bad_input(fmt::format("{} of {} shards {} missing: {}", lack, count,
                               lack == 1 ? "is" : "are", fmt::join(names, ", ")),
                   "name their files too, or run them: --shard I/N -o FILE");
}

Result<ShardsByIndex> read_all(const std::vector<std::string>& files) {
  ShardsByIndex out;
  for (const std::string& file : files) {
    auto shard = read_shard(file);
    if (!shard) return shard.error();
    if (!out.empty())
      if (auto error = compare(out.begin()->second, *shard)) return *error;
    const Shard which = shard->about.shard;
    const auto [at, is_new] = out.emplace(which.index, *std::move(shard));
    if (!is_new)
      return bad_input(fmt::format("{} and {} are both shard {}/{}", at->second.file, file,
                                   which.index, which.count),
                       "name one of them");
  }
  const int count = out.begin()->second.about.shard.count;
  if (int(out.size()) < count) return missing(out, count);
  return out;
}

// Shard i has every n-th piece from piece i - 1 on.
void take_pieces(const ShardOutput& shard, std::vector<std::string>& pieces) {
  auto at = std::size_t(shard.about.header_bytes);
  auto piece = std::size_t(shard.about.shard.index - 1);
  for (const std::int64_t bytes : shard.about.piece_bytes) {
    pieces[piece] = shard.text.substr(at, std::size_t(bytes));
    at += std::size_t(bytes);
    piece += std::size_t(shard.about.shard.count);
  }
}

}  // namespace

Result<MergedShards> merge_shards(const std::vector<std::string>& files) {
  const auto shards = read_all(files);
  if (!shards) return shards.error();
  const ShardOutput& first = shards->begin()->second;
  MergedShards out;
  out.format = first.about.format;
  out.keys = first.about.keys;
  out.scenarios = first.about.all.scenarios;
  out.header = first.text.substr(0, std::size_t(first.about.header_bytes));
  out.pieces.resize(std::size_t(first.about.all.pieces()));
  for (const auto& [index, shard] : *shards) {
    take_pieces(shard, out.pieces);
    out.refused += shard.about.refused;
  }
  return out;
}

}  // namespace rigcast::cli
