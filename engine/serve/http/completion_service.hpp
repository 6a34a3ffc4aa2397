#pragma once
// What the server of a model answers at each of its paths.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/serve/completions.hpp"
#include "engine/serve/http/api_reply.hpp"
#include "engine/serve/http/metrics.hpp"
#include "engine/serve/http/served_model.hpp"
#include "http/service.hpp"

namespace rigcast::engine {

class CompletionService : public HttpService {
 public:
  /// `api_key`: asked for everywhere but at /health; empty: none is. `completions` outlives it.
  CompletionService(ServedModel model, std::string api_key, Completions& completions);
  ~CompletionService() override;

  std::optional<HttpReply> refuse(const HttpHead& head) override;
  std::unique_ptr<HttpAnswer> answer(const HttpHead& head, std::string body,
                                     std::shared_ptr<HttpExchange> exchange) override;
  HttpReply error(int status, const std::string& message) override;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace rigcast::engine
