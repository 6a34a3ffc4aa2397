#include "sim/machine/copy_flows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "core/base/error.hpp"
#include "sim/machine/platform.hpp"

namespace sg = simgrid::s4u;

namespace rigcast::sim {
namespace {

constexpr std::array kDirections{CopyDirection::kToRam, CopyDirection::kFromRam};

// A step's parts that take another way each, in the order in which a layer has them.
constexpr std::array kTransfers{CopyRoute::kExchange, CopyRoute::kStream, CopyRoute::kRead};
constexpr std::size_t kParts = 1 + kTransfers.size();  // the first one moves nothing

// What a layer of a step is made of: seconds of the first part, bytes of the others.
struct Layer {
  std::array<double, kParts> amount{};
  std::array<double, kParts> alone{};  // seconds
};

Layer layer_of(const StepUse& use, int layers, const CopyLinks& links) {
  Layer out;
  const std::array rates{std::min({links.exchange, links.h2d, links.d2h}),
                         std::min(links.h2d, links.ram), links.ram};
  const std::array bytes{use.exchanged, use.streamed, use.read};
  double transfers = 0;
  for (std::size_t i = 0; i < kTransfers.size(); ++i) {
    if (rates[i].value <= 0) continue;  // it takes another way
    out.amount[i + 1] = bytes[i].value / layers;
    out.alone[i + 1] = out.amount[i + 1] / rates[i].value;
    transfers += out.alone[i + 1];
  }
  out.amount[0] = out.alone[0] = std::max(0.0, use.time.value / layers - transfers);
  return out;
}

}  // namespace

// Runs the copies of one CopyFlows beside a step, or beside nothing. SimGrid's signals are global
// and never removed, so there is one for the process.
class FlowRunner {
 public:
  static FlowRunner& instance() {
    static FlowRunner runner;
    return runner;
  }

  struct Until {
    const Layer* layer = nullptr;  // those of a step have been computed
    int layers = 0;
    bool behind_copies = false;       // each begins when its part has come from RAM
    std::optional<Seconds> passed{};  // so long
    bool copied_from_ram = false;     // a copy from RAM has ended
  };

  // Until one of these, or until all copies have ended where there is none of them.
  Seconds run(CopyFlows& flows, Seconds now, const Until& until) {
    if (std::this_thread::get_id() != thread_)
      throw MachineError("a server's copies are simulated by one thread of a process alone");
    Platform::instance().set_copy_links(flows.links_);
    flows_ = &flows;
    until_ = until;
    now_ = now;
    begin_ = sg::Engine::get_clock();
    passed_.reset();
    layer_ = arrived_ = 0;
    part_ = 0;
    is_waiting_ = false;
    for (const CopyDirection direction : kDirections) start(direction);
    if (until.passed) wait(kDeadline, *until.passed);
    if (until.layer) next_part();
    if (!passed_) sg::Engine::get_instance()->run();
    finished_.clear();
    flows_ = nullptr;
    if (!passed_) throw MachineError("simulation stopped before a server's copies ended");
    return *passed_;
  }

 private:
  static constexpr std::size_t kStep = 2, kDeadline = 3;  // after the directions

  FlowRunner() {
    Platform::instance();
    sg::Activity::on_completion_cb([this](const sg::Activity& activity) { completed(activity); });
    // SimGrid still uses an activity after it has signalled its end: free it when time moves on.
    sg::Engine::on_time_advance_cb([this](double) { finished_.clear(); });
  }

  Seconds passed() const { return Seconds{sg::Engine::get_clock() - begin_}; }

  void wait(std::size_t who, Seconds time) {
    auto exec = sg::Exec::init();
    exec->set_flops_amount(time.value);
    exec->set_host(Platform::instance().worker(Worker::kDelay, 0));
    live_[who] = exec;
    exec->start();
  }

  void move(std::size_t who, CopyRoute route, Bytes bytes) {
    const auto ends = Platform::instance().copy_route(route);
    auto comm = sg::Comm::sendto_init();
    comm->set_payload_size(
        std::uint64_t(std::max(1.0, std::round(bytes.value * kCopyUnitsPerByte))));
    live_[who] = comm;
    comm->set_source(ends.from);
    comm->set_destination(ends.to);  // both ends known: it starts here
  }

  void start(CopyDirection direction) {
    std::deque<CopyFlows::Copy>& queue = flows_->queue(direction);
    if (queue.empty()) return;
    CopyFlows::Copy& copy = queue.front();
    if (!copy.begin) copy.begin = now_ + passed();
    const auto who = std::size_t(direction);
    if (copy.wait.value > 0) return wait(who, copy.wait);
    move(who, direction == CopyDirection::kToRam ? CopyRoute::kToRam : CopyRoute::kFromRam,
         copy.left);
  }

  void completed(const sg::Activity& activity) {
    if (!flows_ || passed_) return;
    const auto who = std::ranges::find_if(
        live_, [&](const sg::ActivityPtr& live) { return live.get() == &activity; });
    if (who == live_.end()) return;
    finished_.push_back(std::exchange(*who, nullptr));
    const auto index = std::size_t(who - live_.begin());
    if (index == kDeadline) return stop(*until_.passed);
    if (index != kStep) return copied(CopyDirection(index));
    ++part_;
    next_part();
  }

  void copied(CopyDirection direction) {
    CopyFlows::Copy& copy = flows_->queue(direction).front();
    if (copy.wait.value > 0)
      copy.wait = {};
    else
      end_part(direction);
    if (!passed_) start(direction);
  }

  // A part of the copy that is under way has ended.
  void end_part(CopyDirection direction) {
    std::deque<CopyFlows::Copy>& queue = flows_->queue(direction);
    CopyFlows::Copy& copy = queue.front();
    const bool has_ended = ++copy.part == copy.parts;
    if (has_ended) {
      flows_->done_.push_back({direction, copy.tag, *copy.begin, now_ + passed(), copy.bytes});
      queue.pop_front();
    } else {
      CopyFlows::begin_part(copy);
    }
    if (passed_) return;
    if (direction == CopyDirection::kFromRam) {
      ++arrived_;
      if (std::exchange(is_waiting_, false)) next_part();
      if (has_ended && until_.copied_from_ram && !passed_) stop(passed());
    }
    const bool has_end = until_.layer || until_.passed || until_.copied_from_ram;
    if (!passed_ && !has_end && flows_->is_idle()) stop(passed());
  }

  // The next part of the step begins.
  void next_part() {
    const Layer& layer = *until_.layer;
    for (;; ++part_) {
      if (part_ == kParts) {
        part_ = 0;
        ++layer_;
      }
      if (layer_ == until_.layers) return stop(passed());
      if (part_ == 0 && until_.behind_copies && arrived_ <= layer_) {
        is_waiting_ = true;
        return;
      }
      if (flows_->is_idle()) return stop(passed() + rest());
      if (layer.amount[part_] > 0) break;
    }
    if (part_ == 0) return wait(kStep, Seconds{layer.amount[0]});
    move(kStep, kTransfers[part_ - 1], Bytes{layer.amount[part_]});
  }

  // What is left of the step where nothing slows it.
  Seconds rest() const {
    double all = 0, of_this = 0;
    for (std::size_t part = 0; part < kParts; ++part) {
      all += until_.layer->alone[part];
      if (part >= part_) of_this += until_.layer->alone[part];
    }
    return Seconds{of_this + all * double(until_.layers - layer_ - 1)};
  }

  void stop(Seconds after) {
    passed_ = after;
    for (const CopyDirection direction : kDirections) keep_rest(direction);
    for (sg::ActivityPtr& live : live_) {
      if (!live) continue;
      finished_.push_back(std::exchange(live, nullptr));
      finished_.back()->cancel();
    }
  }

  // What is left of the copy under way goes on with the next run.
  void keep_rest(CopyDirection direction) {
    const sg::ActivityPtr& live = live_[std::size_t(direction)];
    if (!live) return;
    CopyFlows::Copy& copy = flows_->queue(direction).front();
    const double left = live->get_remaining();
    if (copy.wait.value > 0) {
      copy.wait = Seconds{std::max(left, std::numeric_limits<double>::min())};
      return;
    }
    copy.left = Bytes{left / kCopyUnitsPerByte};
    constexpr double kHalfUnit = 0.5;
    if (left < kHalfUnit) end_part(direction);
  }

  const std::thread::id thread_ = std::this_thread::get_id();  // SimGrid runs in no other one
  CopyFlows* flows_ = nullptr;
  Until until_;
  Seconds now_;
  double begin_ = 0;               // of the run, on SimGrid's clock
  std::optional<Seconds> passed_;  // the run is over
  int layer_ = 0, arrived_ = 0;    // that is computed, and whose parts have come from RAM
  std::size_t part_ = 0;
  bool is_waiting_ = false;  // the step, for a part from RAM
  std::array<sg::ActivityPtr, 4> live_;
  std::vector<sg::ActivityPtr> finished_;
};

CopyFlows::CopyFlows(const CopyLinks& links, Seconds start) : links_(links), start_(start) {}
CopyFlows::~CopyFlows() = default;

void CopyFlows::begin_part(Copy& copy) {
  copy.wait = copy.start / double(copy.parts);
  copy.left = copy.bytes / double(copy.parts);
}

void CopyFlows::add(CopyDirection direction, Bytes bytes, std::uint32_t tag) {
  Copy& copy = queue(direction).emplace_back();
  copy.bytes = bytes;
  copy.tag = tag;
  copy.start = start_;
  begin_part(copy);
}

bool CopyFlows::is_idle() const {
  return !has(CopyDirection::kToRam) && !has(CopyDirection::kFromRam);
}

bool CopyFlows::has(CopyDirection direction) const {
  return !queues_[std::size_t(direction)].empty();
}

Seconds CopyFlows::step(Seconds now, const StepUse& use, int layers) {
  if (is_idle()) return use.time;
  constexpr int kMaxPieces = 16;  // where a copy ends within a step is as exact as that
  layers = std::min(layers, kMaxPieces);
  const Layer layer = layer_of(use, layers, links_);
  const bool moves = std::any_of(layer.amount.begin() + 1, layer.amount.end(),
                                 [](double bytes) { return bytes > 0; });
  if (moves) return FlowRunner::instance().run(*this, now, {.layer = &layer, .layers = layers});
  const Layer whole = layer_of(use.time, 1, links_);
  return FlowRunner::instance().run(*this, now, {.layer = &whole, .layers = 1});
}

Seconds CopyFlows::step_behind_copies(Seconds now, const StepUse& use, int layers, Bytes bytes,
                                      int copies) {
  RIGCAST_ASSERT(!has(CopyDirection::kFromRam));
  Copy& copy = queue(CopyDirection::kFromRam).emplace_back();
  copy.bytes = bytes;
  copy.parts = layers;
  copy.start = start_ * double(copies);
  begin_part(copy);
  const Layer layer = layer_of(use, layers, links_);
  return FlowRunner::instance().run(*this, now,
                                    {.layer = &layer, .layers = layers, .behind_copies = true});
}

Seconds CopyFlows::wait(Seconds now, std::optional<Seconds> until) {
  if (is_idle()) return until ? *until - now : Seconds{};
  FlowRunner::Until end{.copied_from_ram = has(CopyDirection::kFromRam)};
  if (until) end.passed = *until - now;
  return FlowRunner::instance().run(*this, now, end);
}

Seconds CopyFlows::finish(Seconds now) {
  return is_idle() ? Seconds{} : FlowRunner::instance().run(*this, now, {});
}

std::vector<CopyFlows::Done> CopyFlows::take_done() { return std::exchange(done_, {}); }

}  // namespace rigcast::sim
