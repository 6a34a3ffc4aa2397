#include "core/pressure/memory_settings.hpp"

#include <fmt/format.h>

namespace rigcast {
namespace {

constexpr Seconds kMaxTime{10.0 * 365 * 24 * 3600};
constexpr Bytes kMaxBytes{1e15};
constexpr int kMaxSessions = 10'000;
constexpr TokenCount kMaxTokens = 1ll << 30;

Bytes size_of(const TomlTable& t, std::string_view key, Bytes fallback) {
  const auto found = t.find_figure<Bytes>(key, Bytes{0}, kMaxBytes);
  return found ? found->value : fallback;
}

void read_memory(const TomlTable& t, const Rig& rig, MemorySettings& out) {
  if (const auto limit = t.find_figure<Bytes>("limit", 1_MiB, kMaxBytes)) {
    out.limit = limit->value;
    if (limit->value > rig.ram.capacity.value)
      t.refuse(
          "limit",
          fmt::format("the limit is above the rig's {} of RAM", text_gib(rig.ram.capacity.value)),
          "leave it out, or give the rig more: --ram-limit");
  }
  out.swap = size_of(t, "swap", {});
  out.swap_on =
      t.choice("swap_on", out.swap_on, {{"disk", SwapDevice::kDisk}, {"zram", SwapDevice::kZram}});
  out.swappiness = int(t.integer_or("swappiness", out.swappiness, 0, 200));
  out.page_cluster = int(t.integer_or("page_cluster", out.page_cluster, 0, 10));
  out.lock = t.choice("lock", out.lock,
                      {{"none", MemoryLock::kNone},
                       {"kv", MemoryLock::kKv},
                       {"weights", MemoryLock::kWeights},
                       {"both", MemoryLock::kBoth}});
  out.in_order = t.flag("in_order", out.in_order);
  out.max_sessions = int(t.integer_or("max_sessions", kMaxSessions, 1, kMaxSessions));
  t.finish();
}

// What an entry leaves out stays as it was.
TimelineEntry read_entry(const TomlTable& t, const TimelineEntry& before, bool first) {
  TimelineEntry e = before;
  const auto at = t.find_figure<Seconds>("at", Seconds{0}, kMaxTime);
  if (!at && !first) t.require("at");
  e.at = at ? at->value : Seconds{0};
  if (!first && e.at <= before.at)
    t.refuse("at", "is not later than the entry before", "sort the entries by time");
  e.other = size_of(t, "other", before.other);
  e.files = size_of(t, "files", before.files);
  if (const auto rate =
          t.find_figure<BytesPerSecond>("stream", BytesPerSecond{0}, BytesPerSecond{1e13}))
    e.stream = rate->value;
  e.sessions = int(t.integer_or("sessions", before.sessions, 0, kMaxSessions));
  e.session_tokens = t.integer_or("session_tokens", before.session_tokens, 0, kMaxTokens);
  t.finish();
  return e;
}

}  // namespace

std::string_view name(SwapDevice device) { return device == SwapDevice::kDisk ? "disk" : "zram"; }

std::string_view name(MemoryLock lock) {
  switch (lock) {
    case MemoryLock::kNone: return "none";
    case MemoryLock::kKv: return "kv";
    case MemoryLock::kWeights: return "weights";
    case MemoryLock::kBoth: return "both";
  }
  return "";
}

void check_memory_settings(const TomlTable& root, const MemorySettings& m, const MemoryUser& user) {
  const TomlTable memory = root.table("memory");
  if (m.locks_kv() && !user.is_own)
    memory.refuse(
        "lock", fmt::format("{} locks no KV cache", user.runtime),
        "llama.cpp's -lm mlock is lock = \"weights\"; without swap, the cache stays, too");
  if (m.in_order && !user.is_own)
    memory.refuse("in_order", fmt::format("{} does not tell the kernel its order", user.runtime),
                  "leave it out, or choose --runtime rigcast");
  else if (m.in_order && !user.maps_weights)
    memory.refuse("in_order", "weights that are copies have no pages of a file", "--mmap on");
  if (user.has_load && m.timeline.size() > 1)
    root.refuse("timeline", "a load has users of its own, and no hours of sessions",
                "one [[timeline]] entry for what others take meanwhile, or leave out the load");
  for (const TimelineEntry& e : m.timeline)
    if (e.session_tokens > user.context)
      root.refuse("timeline",
                  fmt::format("a session of {} tokens is longer than the context of {}",
                              e.session_tokens, user.context),
                  "a longer --context, or fewer session_tokens");
}

std::optional<MemorySettings> read_memory_settings(const TomlTable& root, const Rig& rig,
                                                   TokenCount tokens) {
  if (!root.has("memory") && !root.has("timeline")) return std::nullopt;
  if (rig.os == OperatingSystem::kWindows || rig.os == OperatingSystem::kMacos)
    root.refuse(root.has("memory") ? "memory" : "timeline",
                fmt::format("what {} takes when memory is short is not modelled", name(rig.os)),
                "rig.os = \"linux\", or leave [memory] and [[timeline]] out");
  MemorySettings out;
  read_memory(root.table("memory"), rig, out);
  TimelineEntry last;
  last.session_tokens = tokens;
  if (root.table("memory").has("max_sessions") && !root.has("timeline"))
    root.table("memory").refuse("max_sessions", "there are no sessions but those of a timeline",
                                "[[timeline]] sessions = ..., or leave it out");
  for (const TomlTable& t : root.tables("timeline")) {
    const TimelineEntry next = read_entry(t, last, out.timeline.empty());
    if (out.timeline.empty() && next.at.value > 0) out.timeline.push_back(last);
    out.timeline.push_back(last = next);
  }
  return out;
}

}  // namespace rigcast
