#pragma once
// Logits of llama.cpp's library for a file, on the CPU, with a cache in F32 and without flash
// attention, which would round to F16. As in llama_cpp_loads.c, parameters are taken from the
// library and handed back, so that their fields need not be known: the first three numbers of a
// context's are its tokens and those of its batches, four that are -1 end with flash attention
// (0: none), and the types of K and V are two neighbouring ones, F16 by default.

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/catch.hpp"

namespace rigcast::test {

class LlamaCpp {
 public:
  /// `folder`: where libllama and libggml are.
  explicit LlamaCpp(const std::string& folder) {
    ggml_ = open(folder, "libggml.");
    llama_ = open(folder, "libllama.");
    REQUIRE(ggml_);
    REQUIRE(llama_);
    get<void (*)(void (*)(int, const char*, void*), void*)>("llama_log_set")(only_errors, nullptr);
    get<void (*)(const char*)>("ggml_backend_load_all_from_path", ggml_)(folder.c_str());
  }

  /// Logits after every token, [token][vocabulary], of a context of `context` tokens: the first
  /// `prompt` as one batch, the others one by one. nullopt: the library does not load the file.
  std::optional<std::vector<float>> logits(const std::string& file,
                                           std::span<const std::int32_t> tokens, std::size_t prompt,
                                           std::uint32_t context_tokens) {
    const auto model_parameters = get<Parameters (*)()>("llama_model_default_params")();
    void* const model = get<void* (*)(const char*, Parameters)>("llama_model_load_from_file")(
        file.c_str(), model_parameters);
    if (!model) return std::nullopt;
    Parameters p = get<Parameters (*)()>("llama_context_default_params")();
    p.first = {context_tokens, 512, 512};
    REQUIRE(disable_flash_attention(p));
    REQUIRE(set_cache_types(p));
    void* const context = get<void* (*)(void*, Parameters)>("llama_init_from_model")(model, p);
    std::optional<std::vector<float>> out;
    if (context) {
      get<void (*)(void*, std::int32_t, std::int32_t)>("llama_set_n_threads")(context, 1, 1);
      out = decoded(model, context, tokens, prompt);
      get<void (*)(void*)>("llama_free")(context);
    }
    get<void (*)(void*)>("llama_model_free")(model);
    return out;
  }

 private:
  struct Parameters {
    std::array<std::uint32_t, 3> first;
    std::array<char, 1012> rest;
  };
  struct Batch {
    std::int32_t count;
    void *tokens, *embeddings, *positions, *sequence_counts, *sequences, *wanted;
  };

  static void only_errors(int level, const char* text, void*) {
    constexpr int kError = 4;
    if (level == kError) std::fputs(text, stderr);
  }

  // The library whose name begins so: "libllama.so", "libllama.v0.5.0.so".
  static void* open(const std::string& folder, const std::string& begins) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(begins) || name.find(".so") == std::string::npos) continue;
      if (void* const library = dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL))
        return library;
    }
    return nullptr;
  }

  template <class F>
  F get(const char* name, void* library = nullptr) const {
    void* const found = dlsym(library ? library : llama_, name);
    INFO(name);
    REQUIRE(found);
    return reinterpret_cast<F>(found);
  }

  static bool disable_flash_attention(Parameters& p) {
    const std::array<std::int32_t, 4> automatic = {-1, -1, -1, -1};
    for (std::size_t at = 0; at + sizeof automatic <= p.rest.size(); at += sizeof(std::int32_t)) {
      char* const from = p.rest.data() + at;
      if (std::memcmp(from, automatic.data(), sizeof automatic) != 0) continue;
      std::memset(from + 3 * sizeof(std::int32_t), 0, sizeof(std::int32_t));
      return true;
    }
    return false;
  }

  // Two null pointers, a callback and its data, are before the types.
  static bool set_cache_types(Parameters& p) {
    char* const bytes = reinterpret_cast<char*>(&p);
    const std::array<char, 2 * sizeof(void*)> none{};
    const std::array<std::int32_t, 2> f16 = {1, 1}, f32 = {0, 0};
    for (std::size_t at = 0; at + 64 < sizeof p; at += sizeof(void*)) {
      char* const types = bytes + at + none.size();
      if (std::memcmp(bytes + at, none.data(), none.size()) != 0) continue;
      if (std::memcmp(types, f16.data(), sizeof f16) != 0) continue;
      std::memcpy(types, f32.data(), sizeof f32);
      return true;
    }
    return false;
  }

  std::vector<float> decoded(void* model, void* context, std::span<const std::int32_t> tokens,
                             std::size_t prompt) const {
    const void* const vocabulary =
        get<const void* (*)(const void*)>("llama_model_get_vocab")(model);
    const auto width =
        std::size_t(get<std::int32_t (*)(const void*)>("llama_vocab_n_tokens")(vocabulary));
    const auto one = get<Batch (*)(std::int32_t*, std::int32_t)>("llama_batch_get_one");
    const auto decode = get<std::int32_t (*)(void*, Batch)>("llama_decode");
    const auto row = get<float* (*)(void*, std::int32_t)>("llama_get_logits_ith");
    std::vector<std::int32_t> ids(tokens.begin(), tokens.end());
    std::vector<std::int8_t> all(ids.size(), 1);
    std::vector<float> out;
    for (std::size_t first = 0; first < ids.size();) {
      const std::size_t count = first < prompt ? prompt - first : 1;
      Batch batch = one(ids.data() + first, std::int32_t(count));
      batch.wanted = all.data();
      REQUIRE(decode(context, batch) == 0);
      for (std::size_t i = 0; i < count; ++i) {
        const float* const logits = row(context, std::int32_t(i));
        REQUIRE(logits);
        out.insert(out.end(), logits, logits + width);
      }
      first += count;
    }
    return out;
  }

  void *ggml_ = nullptr, *llama_ = nullptr;
};

}  // namespace rigcast::test
