#pragma once
// Options for executing a scenario on this machine.

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/units.hpp"
#include "engine/backends/backend.hpp"
#include "engine/chat/chat_format.hpp"
#include "engine/run/sampler.hpp"

namespace rigcast::validation {

/// What the prompt is a message of.
struct ChatSettings {
  engine::ChatFormat format = engine::ChatFormat::kChatMl;
  std::string system{};  // the system message; empty: there is none
};

struct ExecuteOptions {
  const engine::EngineBackend* backend = &engine::cpu_backend();
  std::optional<Bytes> vram_limit;  // of the engine; absent: what the GPU has
  std::optional<Bytes> ram_limit;   // of the engine; absent: what the host has
  bool synthetic = false;
  std::optional<std::string> prompt;  // absent: random tokens, as many as the workload's
  std::optional<ChatSettings>
      chat{};                 // the prompt is the user's message; absent: text to go on from
  bool fill_context = false;  // with the answer to `prompt`: no number was asked for
  int repeat = 3;
  std::uint64_t seed = 1;
  engine::Sampling sampling;
  bool text_to_stderr = false;
  bool trace = false;
  std::optional<TokenCount> traced_tokens;     // of the traced run; absent: all
  std::optional<BytesPerSecond> vram_ceiling;  // as measured before; absent: it is measured
};

}  // namespace rigcast::validation
