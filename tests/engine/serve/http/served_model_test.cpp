// What a request becomes: where its answer ends.

#include "engine/serve/http/served_model.hpp"

#include "tests/engine/chat/chat_fixture.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::fixtures;

TEST_CASE("A chat's answer ends where a turn of its format does, and a completion's does not",
          "[serve]") {
  const Tokenizer t = chat_tokenizer({"[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>",
                                      "<|observation|>", "<|endoftext|>"});
  const ServedModel model = ServedModel::make("glm", t, ChatPrompt::make(ChatFormat::kGlm4, t));
  const auto ends_at = [&](ApiKind kind, bool ignore_eos, const char* token) {
    ApiRequest request;
    request.kind = kind;
    request.prompt = "a";
    request.messages = {user("a")};
    request.ignore_eos = ignore_eos;
    const auto prepared = prepare(request, model, 100);
    REQUIRE(prepared.ok());
    return std::ranges::count(prepared->completion.stop_ids, *t.special_token(token)) > 0;
  };
  for (const char* end : {"<|user|>", "<|observation|>"}) {
    CHECK(ends_at(ApiKind::kChat, false, end));
    CHECK_FALSE(ends_at(ApiKind::kChat, true, end));
    CHECK_FALSE(ends_at(ApiKind::kCompletion, false, end));
  }
  for (const ApiKind kind : {ApiKind::kChat, ApiKind::kCompletion})
    for (const char* end : {"<eos>", "<|endoftext|>"}) CHECK(ends_at(kind, false, end));
}
