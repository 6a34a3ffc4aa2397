#include "load/offered_load.hpp"

#include <algorithm>
#include <boost/random/discrete_distribution.hpp>
#include <boost/random/exponential_distribution.hpp>
#include <boost/random/geometric_distribution.hpp>
#include <boost/random/uniform_01.hpp>
#include <boost/random/uniform_int_distribution.hpp>
#include <cmath>
#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "load/arrival_times.hpp"
#include "load/lengths.hpp"
#include "load/trace.hpp"

namespace rigcast {
namespace {

constexpr int kMaxTurns = 100'000;  // of a session: its context is full long before

// The answer is kept as far as that is possible: a client leaves out what is old of a prompt.
void cut(ServedRequest& r, TokenCount context) {
  r.output = std::min(r.output, context - 1);
  r.prompt = std::min(r.prompt, context - r.output);
}

// A request of a session before it is asked.
struct Turn {
  TokenCount tokens = 0;  // that it adds to the conversation
  TokenCount output = 0;
  Seconds think;  // after the answer
};

struct Session {
  std::vector<Turn> turns;
  std::size_t next = 0;         // turn
  std::size_t group = 0;        // of its prefix
  TokenCount conversation = 0;  // tokens of prompts and answers so far
  struct Asked {
    std::size_t request;
    TokenCount conversation;  // with its answer
  };
  std::vector<Asked> asked;  // turns so far
};

// Draws sessions one after the other.
class Sessions {
 public:
  explicit Sessions(const Load& load)
      : random_(load.seed),
        prompt_(draw_from(load.prompt_tokens.value)),
        later_(draw_from(load.later_turns())),
        output_(draw_from(load.output_tokens.value)),
        turns_of_both_(load.turn_tokens.has_value() ? 1 : kMaxTurns),
        turns_(load.turns.value),
        think_(load.think_time.value),
        think_is_constant_(load.think_is_constant) {
    if (load.lengths) {
      pairs_ = load.lengths->bins;
      std::vector<double> weights;
      for (const JointLengths::Bin& bin : pairs_) weights.push_back(bin.weight);
      pair_ = boost::random::discrete_distribution<std::size_t>(weights);
    }
    if (load.shared_prefix_tokens.value <= 0) return;
    std::vector<double> shares;
    for (int k = 1; k <= load.prefix_groups; ++k)
      shares.push_back(std::pow(double(k), -load.prefix_skew));
    group_ = boost::random::discrete_distribution<std::size_t>(shares);
  }

  Session draw() {
    Session s;
    s.group = group_(random_);
    s.turns.resize(std::size_t(draw_turns()));
    for (int t = 0; Turn & turn : s.turns) {
      draw_lengths(turn, t++);
      turn.think = draw_think();
    }
    return s;
  }

 private:
  void draw_lengths(Turn& turn, int number) {
    if (!pairs_.empty() && number < turns_of_both_) {
      const JointLengths::Bin& both = pairs_[pair_(random_)];
      turn.tokens = both.prompt;
      turn.output = both.output;
    } else {
      turn.tokens = (number == 0 ? prompt_ : later_)(random_);
      turn.output = output_(random_);
    }
  }

  int draw_turns() {
    if (turns_ <= 1) return 1;
    boost::random::geometric_distribution<int> others(1 / turns_);
    return 1 + std::clamp(others(random_), 0, kMaxTurns - 1);
  }

  Seconds draw_think() {
    if (think_is_constant_ || think_.value <= 0) return think_;
    return think_ * boost::random::exponential_distribution<double>(1)(random_);
  }

  Random random_;
  DrawLength prompt_, later_, output_;
  std::vector<JointLengths::Bin> pairs_;  // lengths that are drawn together; empty: none
  boost::random::discrete_distribution<std::size_t> pair_;
  int turns_of_both_;  // first turns of a session whose lengths are drawn so
  boost::random::discrete_distribution<std::size_t> group_;  // of one group, if none is stated
  double turns_;
  Seconds think_;
  bool think_is_constant_;
};

class SessionLoad : public OfferedLoad {
 public:
  SessionLoad(const Load& load, TokenCount context, int engines)
      : load_(load),
        context_(context),
        prefix_(TokenCount(load.shared_prefix_tokens.value)),
        engines_(engines),
        engine_(load.seed + 0xd1b54a32d192ed03),
        draws_(load),
        random_(load.seed + 0x9e3779b97f4a7c15),  // times differ from lengths
        first_of_group_(std::size_t(load.prefix_groups)) {
    if (load.is_open()) {
      times_ = arrival_times(load, load.rate / load.turns.value);
      begin_next();
    } else {
      begin_users();
    }
  }

  std::optional<Seconds> next() const override {
    if (due_.empty() || session_of_.size() >= std::size_t(load_.requests)) return std::nullopt;
    if (load_.duration && due_.top().at > *load_.duration) return std::nullopt;
    return due_.top().at;
  }

  ServedRequest take() override {
    const Due due = due_.top();
    due_.pop();
    const std::size_t slot = due.session ? *due.session : begin_session();
    if (!due.session && times_) begin_next();
    session_of_.push_back(std::uint32_t(slot));
    return ask(sessions_[slot], due.at);
  }

  void ended(std::size_t request, Seconds at) override {
    const std::size_t slot = session_of_[request];
    Session& s = sessions_[slot];
    const Seconds then = at + s.turns[s.next - 1].think;
    if (goes_on(s)) return put(then, slot);
    free_.push_back(slot);
    if (!load_.is_open()) put(then, std::nullopt);
  }

  std::size_t shortened() const override { return shortened_; }

 private:
  // A request that will arrive: of a session, or the first of a new one.
  struct Due {
    Seconds at;
    std::uint64_t order = 0;  // of those at the same time
    std::optional<std::size_t> session;
    bool operator>(const Due& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  void put(Seconds at, std::optional<std::size_t> session) { due_.push({at, puts_++, session}); }

  // Of an open load. A burst has as many sessions as its requests need in the mean.
  void begin_next() {
    const bool is_burst = load_.arrival == ArrivalProcess::kBurst;
    if (is_burst && double(begun_++) * load_.turns.value >= double(load_.requests)) return;
    put(times_->next(random_), std::nullopt);
  }

  // Users are met somewhere in their thoughts: what is left of an exponential time is as long as a
  // whole one, of a constant one it is any part.
  void begin_users() {
    const Seconds think = load_.think_time.value;
    boost::random::exponential_distribution<double> exponential(1);
    boost::random::uniform_01<double> part;
    for (int user = 0; user < load_.users; ++user)
      put(think * (load_.think_is_constant ? part(random_) : exponential(random_)), std::nullopt);
  }

  std::size_t begin_session() {
    if (free_.empty()) {
      sessions_.push_back(draws_.draw());
      return sessions_.size() - 1;
    }
    const std::size_t slot = free_.back();
    free_.pop_back();
    sessions_[slot] = draws_.draw();
    return slot;
  }

  ServedRequest ask(Session& s, Seconds at) {
    const std::size_t id = session_of_.size() - 1;
    const Turn& turn = s.turns[s.next++];
    const bool is_first = s.next == 1;
    ServedRequest r{
        at, s.conversation + turn.tokens + (is_first ? prefix_ : 0), turn.output, {}, 0};
    if (const std::size_t ago = turns_ago(); ago <= s.asked.size()) {
      r.continues = s.asked[s.asked.size() - ago].request;
      r.shared = s.asked[s.asked.size() - ago].conversation;
    } else {
      share_prefix(s, id, r);
    }
    if (is_first) cut_to_context(r);
    s.conversation = r.prompt + r.output;
    s.asked.push_back({id, s.conversation});
    return r;
  }

  // So many turns before this one the engine had one of the session, if it had begun.
  std::size_t turns_ago() {
    if (engines_ == 1) return 1;
    boost::random::uniform_int_distribution<int> engine(1, engines_);
    std::size_t ago = 1;
    while (ago < kMaxTurnsAgo && engine(engine_) > 1) ++ago;
    return ago;
  }

  void share_prefix(const Session& s, std::size_t id, ServedRequest& r) {
    if (prefix_ <= 0) return;
    std::optional<std::size_t>& first = first_of_group_[s.group];
    if (first) {
      r.continues = *first;
      r.shared = std::min(prefix_, context_ - 1);
    } else {
      first = id;
    }
  }

  void cut_to_context(ServedRequest& r) {
    if (r.prompt + r.output <= context_) return;
    cut(r, context_);
    ++shortened_;
  }

  bool goes_on(const Session& s) {
    if (s.next == s.turns.size()) return false;
    const Turn& turn = s.turns[s.next];
    if (s.conversation + turn.tokens + turn.output <= context_) return true;
    ++shortened_;
    return false;
  }

  const Load load_;
  static constexpr std::size_t kMaxTurnsAgo = 1000;

  TokenCount context_, prefix_;
  const int engines_;
  Random engine_;  // of the engines to which turns go
  Sessions draws_;
  Random random_;                        // of times at which sessions begin
  std::unique_ptr<ArrivalTimes> times_;  // of an open load
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<Session> sessions_;  // that are on, and places of those that have ended
  std::vector<std::size_t> free_;
  std::vector<std::uint32_t> session_of_;  // place of each request's
  std::vector<std::optional<std::size_t>> first_of_group_;
  std::uint64_t puts_ = 0;
  std::int64_t begun_ = 0;
  std::size_t shortened_ = 0;
};

class TraceLoad : public OfferedLoad {
 public:
  TraceLoad(std::vector<ServedRequest> requests, std::size_t shortened, AllEngines all)
      : requests_(std::move(requests)), list_(requests_), shortened_(shortened), all_(all) {}
  std::optional<Seconds> next() const override { return list_.next(); }
  ServedRequest take() override { return list_.take(); }
  void ended(std::size_t, Seconds) override {}
  std::size_t shortened() const override { return shortened_; }
  std::optional<AllEngines> all_engines() const override { return all_; }

 private:
  const std::vector<ServedRequest> requests_;
  ListedArrivals list_;
  std::size_t shortened_;
  AllEngines all_;
};

// Every so manieth request, which continues the last one of those before it that is among them.
std::vector<ServedRequest> of_one_engine(const std::vector<ServedRequest>& all, int engines) {
  const auto n = std::size_t(engines);
  std::vector<ServedRequest> out;
  for (std::size_t i = 0; i < all.size(); i += n) {
    ServedRequest r = all[i];
    while (r.continues && *r.continues % n != 0) {
      const ServedRequest& before = all[*r.continues];
      r.shared = std::min(r.shared, before.shared);
      r.continues = before.continues;
    }
    if (r.continues)
      *r.continues /= n;
    else
      r.shared = 0;
    out.push_back(r);
  }
  return out;
}

Result<std::unique_ptr<OfferedLoad>> offer_trace(const Load& load, TokenCount context,
                                                 int engines) {
  auto trace = read_trace(load.trace);
  if (!trace) return trace.error();
  std::vector<ServedRequest>& requests = trace->requests;
  if (requests.size() > std::size_t(load.requests)) requests.resize(std::size_t(load.requests));
  for (ServedRequest& r : requests) r.arrival = r.arrival / load.rate_scale;
  if (load.duration)
    std::erase_if(requests, [&](const ServedRequest& r) { return r.arrival > *load.duration; });
  const auto cut_of = [context](const std::vector<ServedRequest>& asked) {
    return std::size_t(std::ranges::count_if(
        asked, [&](const ServedRequest& r) { return r.prompt + r.output > context; }));
  };
  const OfferedLoad::AllEngines all{requests.size(), cut_of(requests)};
  if (engines > 1) requests = of_one_engine(requests, engines);
  const std::size_t shortened = cut_of(requests);
  for (ServedRequest& r : requests) cut(r, context);
  return std::unique_ptr<OfferedLoad>(
      std::make_unique<TraceLoad>(std::move(requests), shortened, all));
}

}  // namespace

Result<std::unique_ptr<OfferedLoad>> offer(const Load& load, TokenCount context, int engines) {
  RIGCAST_ASSERT(context >= 2 && engines >= 1);
  if (load.arrival == ArrivalProcess::kTrace) return offer_trace(load, context, engines);
  return std::unique_ptr<OfferedLoad>(std::make_unique<SessionLoad>(load, context, engines));
}

}  // namespace rigcast
