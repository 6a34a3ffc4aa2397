#include "cli/sweep/shard_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/files/input_file.hpp"
#include "core/files/output_file.hpp"

namespace rigcast::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "rigcast.shard/1";
constexpr std::size_t kMaxOutput = std::size_t(1) << 36;  // bytes
constexpr std::size_t kMaxAbout = std::size_t(1) << 30;

std::string name_beside(const std::string& output) { return output + ".shard"; }

Json to_json(const ShardFile& s) {
  return {{"schema", kSchema},
          {"shard", s.shard.index},
          {"of", s.shard.count},
          {"sweep", s.sweep_id},
          {"program", s.program_id},
          {"inputs", s.inputs_id},
          {"format", s.format == Format::kJson ? "json" : "csv"},
          {"keys", s.keys},
          {"combinations", s.all.scenarios},
          {"piece", s.all.piece_size},
          {"refused", s.refused},
          {"output", s.output_hash},
          {"header_bytes", s.header_bytes},
          {"piece_bytes", s.piece_bytes}};
}

// Throws where a key is not there or of another type.
ShardFile from_json(const Json& json) {
  ShardFile s;
  s.shard = {json.at("shard").get<int>(), json.at("of").get<int>()};
  s.sweep_id = json.at("sweep");
  s.program_id = json.at("program");
  s.inputs_id = json.at("inputs");
  s.format = json.at("format") == "json" ? Format::kJson : Format::kCsv;
  s.keys = json.at("keys").get<std::vector<std::string>>();
  s.all = {json.at("combinations"), json.at("piece")};
  s.refused = json.at("refused");
  s.output_hash = json.at("output");
  s.header_bytes = json.at("header_bytes");
  s.piece_bytes = json.at("piece_bytes").get<std::vector<std::int64_t>>();
  return s;
}

// Numbers that agree with one another, so that nothing needs to be checked where they are used.
bool is_sound(const ShardFile& s) {
  const bool has_place = s.shard.count >= 1 && s.shard.index >= 1 && s.shard.index <= s.shard.count;
  if (!has_place || s.all.scenarios < 1 || s.all.piece_size < 1 || s.header_bytes < 0) return false;
  const std::int64_t later = s.all.pieces() - s.shard.index;  // pieces from its first one on
  const std::int64_t pieces = later < 0 ? 0 : later / s.shard.count + 1;
  for (const std::int64_t bytes : s.piece_bytes)
    if (bytes < 0) return false;
  return pieces == std::int64_t(s.piece_bytes.size());
}

Error not_beside(const std::string& file, const Error& reason) {
  std::error_code ignored;
  if (std::filesystem::exists(name_beside(file), ignored)) return reason;
  return bad_input(
      fmt::format("{}: {} is not there", file, name_beside(file)),
      "what --shard I/N -o FILE makes has FILE.shard beside it: copy both, or run that shard "
      "again");
}

}  // namespace

std::string output_hash(const std::string& output) {
  return fmt::format("{:016x}", std::hash<std::string>{}(output));
}

std::optional<Error> write_shard_file(const std::string& output, const ShardFile& shard) {
  return write_file(name_beside(output), to_json(shard).dump() + "\n");
}

Result<ShardOutput> read_shard(const std::string& file) {
  auto text = read_input(file, kMaxOutput);
  if (!text) return text.error();
  const auto about = read_input(name_beside(file), kMaxAbout);
  if (!about) return not_beside(file, about.error());
  const Json json = Json::parse(*about, nullptr, false);
  const Error foreign = bad_input(fmt::format("{} describes no shard", name_beside(file)),
                                  "run that shard again: it writes the file anew");
  if (!json.is_object() || json.value("schema", Json()) != kSchema) return foreign;
  ShardOutput out{file, *std::move(text), {}};
  try {
    out.about = from_json(json);
  } catch (const Json::exception&) {
    return foreign;
  }
  if (!is_sound(out.about)) return foreign;
  const auto& pieces = out.about.piece_bytes;
  const std::int64_t bytes = std::accumulate(pieces.begin(), pieces.end(), out.about.header_bytes);
  if (bytes != std::int64_t(out.text.size()) || output_hash(out.text) != out.about.output_hash)
    return bad_input(fmt::format("{} is not what {} describes", file, name_beside(file)),
                     "it was cut off or changed since: run that shard again");
  return out;
}

}  // namespace rigcast::cli
