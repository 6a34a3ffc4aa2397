#include "cli/ui/answer_desk.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <optional>
#include <utility>

namespace rigcast::cli {
namespace {

namespace net = boost::asio;
using ErrorCode = boost::system::error_code;

constexpr std::chrono::seconds kQuickTime{20}, kLongTime{120};
constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kMaxAnswer = 64 << 20;

}  // namespace

class AnswerDesk::Ticket : public std::enable_shared_from_this<Ticket> {
 public:
  Ticket(AnswerDesk& desk, Question question, std::shared_ptr<HttpLoop> loop,
         WorkerListener listener)
      : desk_(desk),
        question_(std::move(question)),
        loop_(std::move(loop)),
        listener_(std::move(listener)),
        socket_(loop_->context()),
        timer_(loop_->context()) {}
  ~Ticket() { leave(); }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  void start();

 private:
  void read();
  void take_progress();
  void finish(int code);
  void leave();

  AnswerDesk& desk_;
  Question question_;
  std::shared_ptr<HttpLoop> loop_;
  WorkerListener listener_;
  net::local::stream_protocol::socket socket_;
  net::steady_timer timer_;
  std::array<char, kReadBytes> part_;
  std::string text_;
  bool is_busy_ = false;
};

void AnswerDesk::Ticket::start() {
  is_busy_ = true;
  ++desk_.busy_;
  if (question_.is_long) ++desk_.long_busy_;
  const int socket = desk_.workers_.ask(question_.words);
  if (socket < 0) return finish(WorkerOutput::kCutShort);
  socket_.assign(net::local::stream_protocol(), socket);
  timer_.expires_after(question_.is_long ? kLongTime : kQuickTime);
  timer_.async_wait([weak = weak_from_this()](ErrorCode ec) {
    const auto self = weak.lock();
    if (!ec && self) self->finish(WorkerOutput::kTooLong);
  });
  read();
}

// What is read is kept alive by who waits for the answer: without them, the read ends.
void AnswerDesk::Ticket::read() {
  socket_.async_read_some(
      net::buffer(part_), [weak = weak_from_this()](ErrorCode ec, std::size_t bytes) {
        const auto self = weak.lock();
        if (!self || !self->listener_.take) return;
        self->text_.append(self->part_.data(), bytes);
        self->take_progress();
        if (!ec && self->text_.size() <= kMaxAnswer) return self->read();
        const bool whole =
            !self->text_.empty() && self->text_.back() >= 0 && self->text_.back() <= kLastExitCode;
        if (!whole) return self->finish(WorkerOutput::kCutShort);
        const int code = self->text_.back();
        self->text_.pop_back();
        self->finish(code);
      });
}

void AnswerDesk::Ticket::take_progress() {
  while (text_.starts_with(kProgressMark)) {
    const std::size_t end = text_.find('\n');
    if (end == std::string::npos) return;
    const std::string line = text_.substr(1, end - 1);
    text_.erase(0, end + 1);
    listener_.progress(line);
  }
}

void AnswerDesk::Ticket::finish(int code) {
  const auto self = shared_from_this();
  const auto take = std::exchange(listener_.take, {});
  leave();
  ++desk_.answered_;
  if (take) take({code, std::move(text_)});
}

void AnswerDesk::Ticket::leave() {
  ErrorCode ignored;
  socket_.close(ignored);
  timer_.cancel();
  if (!std::exchange(is_busy_, false)) return;
  --desk_.busy_;
  if (question_.is_long) --desk_.long_busy_;
  loop_->post([&desk = desk_] { desk.start_more(); });
}

std::size_t AnswerDesk::waiting() const {
  const auto count = [](const auto& queue) {
    return std::ranges::count_if(queue, [](const auto& ticket) { return !ticket.expired(); });
  };
  return std::size_t(count(quick_) + count(long_));
}

std::shared_ptr<AnswerDesk::Ticket> AnswerDesk::ask(Question question,
                                                    std::shared_ptr<HttpLoop> loop,
                                                    WorkerListener listener) {
  if (waiting() >= kMaxWaiting) {
    ++refused_;
    return nullptr;
  }
  auto& queue = question.is_long ? long_ : quick_;
  auto ticket = std::make_shared<Ticket>(*this, std::move(question), loop, std::move(listener));
  queue.push_back(ticket);
  loop->post([this] { start_more(); });
  return ticket;
}

bool AnswerDesk::start_one(std::deque<std::weak_ptr<Ticket>>& queue) {
  while (!queue.empty()) {
    const auto ticket = queue.front().lock();
    queue.pop_front();
    if (!ticket) continue;
    ticket->start();
    return true;
  }
  return false;
}

void AnswerDesk::start_more() {
  while (busy_ < jobs_ && start_one(quick_)) {
  }
  while (busy_ < jobs_ && long_busy_ < jobs_ - 1 && start_one(long_)) {
  }
}

}  // namespace rigcast::cli
