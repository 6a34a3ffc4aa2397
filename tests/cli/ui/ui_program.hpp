#pragma once
// `rigcast ui`, run as people run it, at a port that is free.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/cli/program.hpp"
#include "tests/engine/serve/http/http_client.hpp"
#include "tests/paths.hpp"

namespace rigcast::cli_test {

using fixtures::HttpClient;
using fixtures::HttpResponse;

class UiProgram {
 public:
  explicit UiProgram(std::vector<std::string> more = {}) {
    int ends[2];
    check_system(::pipe2(ends, O_CLOEXEC) == 0, "no pipe");
    process_ = ::fork();
    check_system(process_ >= 0, "no process");
    if (process_ == 0) {
      ::setpgid(0, 0);
      ::dup2(ends[1], 1);
      ::setenv("XDG_DATA_HOME", (place_ / "own").c_str(), 1);
      std::vector<std::string> words = {test::program(), "ui", "--port", "0"};
      words.insert(words.end(), more.begin(), more.end());
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    std::string line;
    for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';) line += c;
    ::close(ends[0]);
    address_ = line;
    const auto colon = line.find(':', sizeof "http://" - 1);
    port_ =
        colon == line.npos ? std::uint16_t(0) : std::uint16_t(std::stoi(line.substr(colon + 1)));
  }
  ~UiProgram() {
    if (process_ <= 0) return;
    ::kill(-process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  UiProgram(const UiProgram&) = delete;
  UiProgram& operator=(const UiProgram&) = delete;

  const std::string& address() const { return address_; }
  std::uint16_t port() const { return port_; }
  pid_t process() const { return process_; }

  /// The seconds that it took to end, as control-C has it.
  double interrupt() {
    const auto begin = std::chrono::steady_clock::now();
    ::kill(-process_, SIGINT);
    while (!has_ended(process_) && seconds_since(begin) < 10)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const double took = seconds_since(begin);
    if (has_ended(process_)) {
      ::waitpid(process_, &status_, 0);
      process_ = 0;
    }
    return took;
  }
  int status() const { return status_; }

  static double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string get_text(std::string_view path, std::string_view more = {}) const {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: " + host() + "\r\n" +
           std::string(more) + "\r\n";
  }
  std::string post_text(std::string_view path, std::string_view body,
                        std::string_view type = "application/json",
                        std::string_view more = {}) const {
    return "POST " + std::string(path) + " HTTP/1.1\r\nHost: " + host() +
           "\r\nContent-Type: " + std::string(type) +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + std::string(more) +
           "\r\n" + std::string(body);
  }
  /// Of a connection of its own.
  HttpResponse send(const std::string& request) const {
    HttpClient client(port_);
    client.send(request);
    return client.response(std::chrono::seconds(60));
  }
  HttpResponse get(std::string_view path, std::string_view more = {}) const {
    return send(get_text(path, more));
  }
  HttpResponse post(std::string_view path, std::string_view body) const {
    return send(post_text(path, body));
  }

 private:
  Folder place_;
  pid_t process_ = 0;
  int status_ = 0;
  std::string address_;
  std::uint16_t port_ = 0;
};

/// A question that is quick to answer.
inline const std::string kQuickQuestion =
    R"({"scenario": {"rig": {"gpu": ["rtx-3060-12gb"]}, "model": {"name": "llama-3.2-1b"},)"
    R"( "workload": {"context": 2048}}})";

}  // namespace rigcast::cli_test
