#include "core/runtime/kv_disk.hpp"

#include <fmt/format.h>

#include "core/text/unit_text.hpp"

namespace rigcast {

Result<KvDisk> parse_kv_disk(std::string_view text) {
  constexpr Bytes kDefault = 32_GiB, kMax = 100'000_GiB;
  const auto refused = [&](std::string_view why) {
    return bad_input(fmt::format("\"{}\": {}", text, why), "DIR or DIR:SIZE, as /mnt/nvme:200GiB");
  };
  const std::size_t colon = text.rfind(':');
  const std::string_view after = colon == text.npos ? "" : text.substr(colon + 1);
  const bool has_size = !after.empty() && after.front() >= '0' && after.front() <= '9';
  const std::string_view folder = has_size ? text.substr(0, colon) : text;
  if (folder.empty()) return refused("names no folder");
  if (!has_size) return KvDisk{std::string(folder), kDefault};
  const auto size = parse_bytes(after);
  if (!size) return refused(size.error().message);
  if (!(*size > 0_B) || *size > kMax) return refused("not a plausible size");
  return KvDisk{std::string(folder), *size};
}

}  // namespace rigcast
