// Whether llama.cpp loads a GGUF file and decodes ids with it.
//   llama_cpp_loads FOLDER FILE...    FOLDER: where libllama.so and libggml.so are
//
// Nothing of llama.cpp is needed to build it: structures of parameters are taken from the library and
// handed back as they are, larger than any version's, so that their fields need not be known. Of the
// context's the first three are numbers of tokens: n_ctx, n_batch, n_ubatch.
#include <dlfcn.h>
#include <glob.h>
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

static int loads(void* llama, const char* file) {
  const Parameters p = ((Parameters(*)(void))symbol(llama, "llama_model_default_params"))();
  void* model = ((void* (*)(const char*, Parameters))symbol(llama, "llama_model_load_from_file"))(
      file, p);
  const int ok = model && decodes(llama, model, file);
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
  void* llama = open_library(words[1], "libllama.*so*");
  if (!ggml || !llama) return 2;
  typedef void (*Log)(int, const char*, void*);
  ((void (*)(Log, void*))symbol(llama, "llama_log_set"))(only_errors, NULL);
  ((void (*)(const char*))symbol(ggml, "ggml_backend_load_all_from_path"))(words[1]);
  int failed = 0;
  for (int i = 2; i < count; ++i) failed |= !loads(llama, words[i]);
  return failed;
}
