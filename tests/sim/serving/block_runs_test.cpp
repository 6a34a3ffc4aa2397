// The cache in blocks keeps runs of them; it has to do what one does that keeps them one by one.
#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <random>
#include <vector>

#include "sim/serving/cache/block_cache.hpp"
#include "tests/catch.hpp"

namespace rigcast {
namespace {

// Blocks one by one, in lists that are searched.
class OneByOne {
 public:
  OneByOne(const SchedulerPolicy& policy, std::size_t blocks, std::size_t in_ram,
           const RequestLog& log)
      : block_(policy.block_tokens),
        in_step_(policy.shares_in_step),
        ram_count_(in_ram),
        log_(log) {
    for (std::size_t i = 0; i < blocks; ++i) free_.push_back(int(i));
    users_.resize(blocks);
    content_.resize(blocks, kNothing);
  }

  std::size_t free_units() const { return free_.size(); }

  KvCache::Found find(RequestId id) {
    hits_.clear();
    const auto full = std::uint32_t((log_.known(id) - 1) / block_);
    std::uint32_t index = 0;
    for (; index < full && held_.contains(key(id, index)); ++index)
      hits_.push_back(held_.at(key(id, index)));
    const TokenCount here = index;
    for (; index < full && std::ranges::find(ram_, key(id, index)) != ram_.end();) ++index;
    return {here * block_, (index - here) * block_};
  }
  bool has_room(TokenCount tokens) const {
    const auto unused = std::size_t(
        std::ranges::count_if(hits_, [&](int b) { return users_[std::size_t(b)] == 0; }));
    const std::size_t wanted = blocks_for(tokens);
    return wanted - std::min(wanted, hits_.size()) + unused <= free_.size();
  }
  void admit(RequestId id) {
    for (const int block : hits_)
      if (users_[std::size_t(block)]++ == 0) std::erase(free_, block);
    blocks_[id] = hits_;
    stated_[id] = hits_.size();
  }
  bool grow(RequestId id, TokenCount tokens) {
    std::vector<int>& own = blocks_[id];
    const std::size_t wanted = blocks_for(tokens);
    if (wanted > own.size() && wanted - own.size() > free_.size()) return false;
    while (own.size() < wanted) own.push_back(take());
    state(id, in_step_ ? tokens : log_.state(id).computed);
    return true;
  }
  void release(RequestId id) {
    if (!in_step_) state(id, log_.state(id).computed);
    std::vector<int>& own = blocks_[id];
    for (auto block = own.rbegin(); block != own.rend(); ++block)
      if (--users_[std::size_t(*block)] == 0) free_.push_back(*block);
    own.clear();
  }
  std::size_t stored() const { return stored_; }

 private:
  static constexpr std::uint64_t kNothing = ~std::uint64_t(0);
  std::uint64_t key(RequestId id, std::uint32_t index) const {
    return (std::uint64_t(log_.owner(id, TokenCount(index + 1) * block_)) << 32) | index;
  }
  std::size_t blocks_for(TokenCount tokens) const {
    return std::size_t((tokens + block_ - 1) / block_);
  }
  int take() {
    const int block = free_.front();
    free_.pop_front();
    std::uint64_t& content = content_[std::size_t(block)];
    if (content != kNothing) held_.erase(content);
    content = kNothing;
    users_[std::size_t(block)] = 1;
    return block;
  }
  void state(RequestId id, TokenCount tokens) {
    for (std::size_t& stated = stated_[id]; TokenCount(stated + 1) * block_ <= tokens; ++stated) {
      const std::uint64_t own = key(id, std::uint32_t(stated));
      const int block = blocks_[id][stated];
      if (held_.emplace(own, block).second) content_[std::size_t(block)] = own;
      if (ram_count_ == 0) continue;
      if (std::erase(ram_, own) == 0) {
        if (ram_.size() == ram_count_) ram_.pop_front();
        ++stored_;
      }
      ram_.push_back(own);
    }
  }

  const TokenCount block_;
  const bool in_step_;
  const std::size_t ram_count_;
  const RequestLog& log_;
  std::list<int> free_;
  std::vector<int> users_;
  std::vector<std::uint64_t> content_;
  std::map<std::uint64_t, int> held_;
  std::list<std::uint64_t> ram_;
  std::map<RequestId, std::vector<int>> blocks_;
  std::map<RequestId, std::size_t> stated_;
  std::vector<int> hits_;
  std::size_t stored_ = 0;
};

struct Sizes {
  TokenCount block;
  bool in_step;
  std::size_t blocks, in_ram;
};

// Requests of a few conversations, some of which begin alike, come, grow and go by chance.
void check_alike(const Sizes& sizes, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return std::size_t(random() % n); };
  SchedulerPolicy policy;
  policy.block_tokens = sizes.block;
  policy.prefix_cache = true;
  policy.shares_in_step = sizes.in_step;
  RamTier tier;
  tier.capacity = Bytes{double(sizes.in_ram)};
  tier.bytes_of = [&](TokenCount tokens) { return Bytes{double(tokens / sizes.block)}; };
  RequestLog log;
  BlockCache cache(policy, TokenCount(sizes.blocks) * sizes.block, tier, log);
  OneByOne plain(policy, sizes.blocks, sizes.in_ram, log);
  std::vector<RequestId> waiting, running;
  std::size_t found_here = 0, found_in_ram = 0, copied = 0;
  const auto finish = [&](std::size_t at, bool preempted) {
    const RequestId id = running[at];
    running.erase(running.begin() + std::ptrdiff_t(at));
    cache.release(id);
    plain.release(id);
    log.state(id).computed = 0;
    if (preempted) waiting.push_back(id);
  };
  for (int step = 0; step < 3000; ++step) {
    if (waiting.size() < 3) {
      ServedRequest r{Seconds{0}, 1 + TokenCount(below(40)), 1 + TokenCount(below(60)), {}, 0};
      if (log.size() > 0 && below(4) > 0) {
        const RequestId before =
            RequestId(log.size() - 1 - below(std::min<std::size_t>(8, log.size())));
        r.continues = before;
        r.shared = 1 + TokenCount(below(std::size_t(log[before].prompt + log[before].output - 1)));
        r.prompt += r.shared;
      }
      log.add(r);
      if (r.prompt + r.output < TokenCount(sizes.blocks) * sizes.block)
        waiting.push_back(RequestId(log.size() - 1));
    }
    if (!waiting.empty()) {
      const RequestId id = waiting.front();
      const KvCache::Found a = cache.find(id), b = plain.find(id);
      REQUIRE(a.here == b.here);
      REQUIRE(a.in_ram == b.in_ram);
      const bool room = plain.has_room(log.known(id));
      REQUIRE(cache.has_room(log.known(id), 0) == room);
      if (room && running.size() < 6) {
        waiting.erase(waiting.begin());
        cache.admit(id);
        plain.admit(id);
        cache.reserve(id, a.here);
        log.state(id).computed = a.here;
        running.push_back(id);
        found_here += std::size_t(a.here);
        found_in_ram += std::size_t(a.in_ram);
      }
    }
    for (std::size_t i = 0; i < running.size();) {
      const RequestId id = running[i];
      RequestLog::State& state = log.state(id);
      const TokenCount tokens =
          std::min(state.computed + 1 + TokenCount(below(25)), log.longest(id));
      const bool grown = plain.grow(id, tokens);
      REQUIRE(cache.grow(id, tokens) == grown);
      if (grown) state.computed = tokens;
      if (!grown || tokens >= log.longest(id))
        finish(i, !grown);
      else
        ++i;
    }
    REQUIRE(cache.free_units() == plain.free_units());
    copied += std::size_t(cache.take_copies().to_ram.value + 0.5);
    REQUIRE(copied == plain.stored());
  }
  CHECK(found_here > 0);
  if (sizes.in_ram > sizes.blocks) CHECK(found_in_ram > 0);
}

TEST_CASE("Runs of blocks are found, shared, taken and given back as blocks one by one are",
          "[serving]") {
  for (const Sizes& sizes :
       {Sizes{1, false, 300, 0}, Sizes{1, false, 250, 400}, Sizes{1, true, 400, 150},
        Sizes{4, true, 60, 90}, Sizes{16, false, 30, 40}})
    for (std::uint32_t seed = 1; seed <= 5; ++seed) {
      INFO("blocks of " << sizes.block << " tokens, seed " << seed);
      check_alike(sizes, seed);
    }
}

}  // namespace
}  // namespace rigcast
