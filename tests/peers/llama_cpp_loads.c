// Whether llama.cpp loads a GGUF file and decodes ids with it, and whether routers spread a batch over
// experts: at least 0.9 of those that independent, uniform choices would touch.
//   llama_cpp_loads FOLDER FILE...    FOLDER: where libllama.so and libggml.so are
//
// Nothing of llama.cpp is needed to build it: structures of parameters are taken from the library and
// handed back as they are, larger than any version's, so that their fields need not be known. Of the
// context's the first three are numbers of tokens: n_ctx, n_batch, n_ubatch. The callback for each
// operation and its argument are the null pointers before the types of K and V, which are F16 (1).
#include <dlfcn.h>
#include <glob.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint32_t first[3];
  char rest[1012];
} Parameters;

// llama_batch, by which llama_decode is called.
typedef struct {
  int32_t count;
  void *tokens, *embeddings, *positions, *sequence_counts, *sequences, *wanted;
} Batch;

static void* open_library(const char* folder, const char* pattern) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, pattern);
  glob_t found;
  void* library = NULL;
  if (glob(path, 0, NULL, &found) == 0) library = dlopen(found.gl_pathv[0], RTLD_NOW | RTLD_GLOBAL);
  if (!library) fprintf(stderr, "llama_cpp_loads: %s: %s\n", path, library ? "" : dlerror());
  globfree(&found);
  return library;
}

static void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (!found) {
    fprintf(stderr, "llama_cpp_loads: the library has no %s\n", name);
    exit(2);
  }
  return found;
}

static void only_errors(int level, const char* text, void* unused) {
  (void)unused;
  enum { kError = 4, kContinued = 5 };
  static int last;
  if (level != kContinued) last = level;
  if (last == kError) fputs(text, stderr);
}

// Two tokens after eight, each the likeliest.
static int decodes(void* llama, void* model, const char* file) {
  Parameters p = ((Parameters(*)(void))symbol(llama, "llama_context_default_params"))();
  p.first[0] = 256, p.first[1] = 256, p.first[2] = 256;
  void* context =
      ((void* (*)(void*, Parameters))symbol(llama, "llama_init_from_model"))(model, p);
  if (!context) return 0;
  const void* vocabulary = ((const void* (*)(void*))symbol(llama, "llama_model_get_vocab"))(model);
  const int size = ((int32_t(*)(const void*))symbol(llama, "llama_vocab_n_tokens"))(vocabulary);
  int32_t tokens[8] = {1, 2, 3, 4, 5, 6, 7, 8}, count = 8, ok = 1;
  for (int step = 0; step < 2 && ok; ++step) {
    Batch batch =
        ((Batch(*)(int32_t*, int32_t))symbol(llama, "llama_batch_get_one"))(tokens, count);
    ok = ((int32_t(*)(void*, Batch))symbol(llama, "llama_decode"))(context, batch) == 0;
    const float* logits =
        ((float* (*)(void*, int32_t))symbol(llama, "llama_get_logits_ith"))(context, -1);
    int best = 0;
    for (int i = 0; ok && i < size; ++i) {
      ok = logits[i] == logits[i];  // a number
      if (logits[i] > logits[best]) best = i;
    }
    tokens[0] = best, count = 1;
  }
  if (ok) printf("ok      %s: %d tokens in its vocabulary, the next is %d\n", file, size, tokens[0]);
  ((void (*)(void*))symbol(llama, "llama_free"))(context);
  return ok;
}

enum { kTokens = 64, kMostExperts = 1024 };

// What a layer's experts are counted with. Distinct experts are summed over layers.
static struct {
  const char* (*name)(const void*);
  size_t (*bytes)(const void*);
  void (*get)(const void*, void*, size_t, size_t);
  int experts, used, layers, distinct;
} routes;

// Called twice for each operation: with `ask` whether its result is wanted, then with the result.
static bool count_experts(void* tensor, bool ask, void* unused) {
  (void)unused;
  if (strncmp(routes.name(tensor), "ffn_moe_topk-", 13) != 0) return !ask;
  if (ask) return true;
  static int32_t chosen[kTokens * kMostExperts];
  const size_t bytes = routes.bytes(tensor);
  // Rows lie together, or are the beginnings of rows of all experts, sorted.
  const size_t together = sizeof(int32_t) * kTokens * (size_t)routes.used;
  const int stride = bytes == together ? routes.used : routes.experts;
  if (bytes > sizeof chosen || bytes < together) return true;
  routes.get(tensor, chosen, 0, bytes);
  char seen[kMostExperts] = {0};
  for (int i = 0; i < kTokens; ++i)
    for (int j = 0; j < routes.used; ++j) {
      const int32_t expert = chosen[i * stride + j];
      if (expert < 0 || expert >= routes.experts) return true;
      routes.distinct += !seen[expert];
      seen[expert] = 1;
    }
  ++routes.layers;
  return true;
}

static int metadata(void* llama, void* model, const char* key) {
  int32_t (*get)(const void*, const char*, char*, size_t) = symbol(llama, "llama_model_meta_val_str");
  char architecture[64], name[128], value[64];
  if (get(model, "general.architecture", architecture, sizeof architecture) < 0) return 0;
  snprintf(name, sizeof name, "%s.%s", architecture, key);
  return get(model, name, value, sizeof value) < 0 ? 0 : atoi(value);
}

static int set_callback(Parameters* p) {
  char* bytes = (char*)p;
  const char none[2 * sizeof(void*)] = {0};
  const int32_t types[2] = {1, 1};
  for (size_t at = 0; at + 64 < sizeof *p; at += sizeof(void*))
    if (!memcmp(bytes + at, none, sizeof none) &&
        !memcmp(bytes + at + sizeof none, types, sizeof types)) {
      bool (*callback)(void*, bool, void*) = count_experts;
      memcpy(bytes + at, &callback, sizeof callback);
      return 1;
    }
  return 0;
}

// True for a model without experts, too.
static int spreads(void* llama, void* model) {
  routes.experts = metadata(llama, model, "expert_count");
  routes.used = metadata(llama, model, "expert_used_count");
  routes.layers = routes.distinct = 0;
  if (routes.experts == 0) return 1;
  Parameters p = ((Parameters(*)(void))symbol(llama, "llama_context_default_params"))();
  p.first[0] = 256, p.first[1] = 256, p.first[2] = 256;
  if (!set_callback(&p)) return 0;
  void* context = ((void* (*)(void*, Parameters))symbol(llama, "llama_init_from_model"))(model, p);
  if (!context) return 0;
  const void* vocabulary = ((const void* (*)(void*))symbol(llama, "llama_model_get_vocab"))(model);
  const int size = ((int32_t(*)(const void*))symbol(llama, "llama_vocab_n_tokens"))(vocabulary);
  int32_t tokens[kTokens];
  for (int i = 0; i < kTokens; ++i) tokens[i] = (i * 7919 + 13) % size;
  Batch batch = ((Batch(*)(int32_t*, int32_t))symbol(llama, "llama_batch_get_one"))(tokens, kTokens);
  int8_t all[kTokens];  // logits of all tokens: else the last layer routes the last token alone
  memset(all, 1, sizeof all);
  batch.wanted = all;
  const int ok = ((int32_t(*)(void*, Batch))symbol(llama, "llama_decode"))(context, batch) == 0;
  ((void (*)(void*))symbol(llama, "llama_free"))(context);
  if (!ok || routes.layers == 0) return 0;
  const double share = (double)routes.used / routes.experts;
  const double uniform = routes.experts * (1 - pow(1 - share, kTokens));
  const double spread = (double)routes.distinct / routes.layers / uniform;
  printf("        %d tokens choose %.2f of the experts that uniform choices would\n", kTokens, spread);
  return spread >= 0.9;
}

static int loads(void* llama, const char* file) {
  const Parameters p = ((Parameters(*)(void))symbol(llama, "llama_model_default_params"))();
  void* model = ((void* (*)(const char*, Parameters))symbol(llama, "llama_model_load_from_file"))(
      file, p);
  const int ok = model && decodes(llama, model, file) && spreads(llama, model);
  if (!ok) printf("FAILED  %s\n", file);
  if (model) ((void (*)(void*))symbol(llama, "llama_model_free"))(model);
  return ok;
}

int main(int count, char** words) {
  if (count < 3) {
    fputs("usage: llama_cpp_loads FOLDER FILE...\n", stderr);
    return 2;
  }
  void* ggml = open_library(words[1], "libggml.*so*");
  void* base = open_library(words[1], "libggml-base*so*");
  void* llama = open_library(words[1], "libllama.*so*");
  if (!ggml || !base || !llama) return 2;
  routes.name = symbol(base, "ggml_get_name");
  routes.bytes = symbol(base, "ggml_nbytes");
  routes.get = symbol(base, "ggml_backend_tensor_get");
  typedef void (*Log)(int, const char*, void*);
  ((void (*)(Log, void*))symbol(llama, "llama_log_set"))(only_errors, NULL);
  ((void (*)(const char*))symbol(ggml, "ggml_backend_load_all_from_path"))(words[1]);
  int failed = 0;
  for (int i = 2; i < count; ++i) failed |= !loads(llama, words[i]);
  return failed;
}
