#pragma once
// What the local page's server answers: the page itself, and its questions. It is a server for one
// page in a browser of this machine, and refuses what any other page would have the browser send.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/ui/answer_desk.hpp"
#include "cli/ui/page_files.hpp"
#include "http/service.hpp"

namespace rigcast::cli {

class UiService : public HttpService {
 public:
  UiService(Workers workers, int jobs) : desk_(std::move(workers), jobs), files_(page_files()) {}

  /// The port that it is served at: requests name it. Before the first of them.
  void set_port(std::uint16_t port) { port_ = port; }

  std::optional<HttpReply> refuse(const HttpHead& head) override;
  std::unique_ptr<HttpAnswer> answer(const HttpHead& head, std::string body,
                                     std::shared_ptr<HttpExchange> exchange) override;
  HttpReply error(int status, const std::string& message) override;

 private:
  const PageFile* file_at(std::string_view path) const;
  std::optional<HttpReply> refuse_origin(const HttpHead& head) const;
  HttpReply health() const;
  HttpReply file_reply(const HttpHead& head, const PageFile& file) const;

  AnswerDesk desk_;
  std::vector<PageFile> files_;
  std::atomic<std::uint16_t> port_{0};
};

}  // namespace rigcast::cli
