// Sums of a step by resource. No overlap can beat the busiest of them.
#include <algorithm>

#include "core/step.hpp"

namespace rigcast {
namespace {

struct GpuUse {
  double vram = 0, h2d = 0, d2h = 0, compute = 0, launch = 0;
};

class Sum {
 public:
  explicit Sum(const Rig& rig) : rig_(rig), gpus_(rig.gpus.size()) {}

  void op(const StepOp& op) {
    if (op.device == kHost) {
      host(op.cost);
    } else {
      gpu(std::size_t(op.device), op);
    }
    if (op.host_part) host(*op.host_part);
    if (op.handoff_bytes.value > 0) handoff(op);
  }

  void logits(const Step& step) {
    if (step.logits.value <= 0) return;
    copy_out(std::size_t(step.logits_from), step.logits);
  }

  ResourceUse use() {
    GpuUse worst;
    for (const GpuUse& g : gpus_) {
      worst.vram = std::max(worst.vram, g.vram);
      worst.h2d = std::max(worst.h2d, g.h2d);
      worst.d2h = std::max(worst.d2h, g.d2h);
      worst.compute = std::max(worst.compute, g.compute);
      worst.launch = std::max(worst.launch, g.launch);
    }
    use_.add(Resource::kVram, worst.vram);
    use_.add(Resource::kH2d, worst.h2d);
    use_.add(Resource::kD2h, worst.d2h);
    use_.add(Resource::kGpu, worst.compute);
    use_.add(Resource::kLaunch, worst.launch);
    return use_;
  }

 private:
  double ram_seconds(Bytes b) const { return (b / rig_.ram.bandwidth.value).value; }

  void host(const OpCost& c) {
    use_.add(Resource::kRam, ram_seconds(c.charged), c.bytes.value);
    use_.add(Resource::kCpu, c.compute.value);
    use_.add(Resource::kHost, c.gap.value);
  }

  void gpu(std::size_t g, const StepOp& op) {
    GpuUse& u = gpus_[g];
    u.launch += op.cost.gap.value;
    u.compute += op.cost.compute.value;
    if (rig_.unified()) {
      use_.add(Resource::kRam, ram_seconds(op.cost.charged), op.cost.bytes.value);
    } else {
      u.vram += (op.cost.charged / rig_.gpus[g].bandwidth.value).value;
      use_.add(Resource::kVram, 0, op.cost.bytes.value);
    }
    if (op.fetch) copy_in(g, op.fetch->bytes, op.fetch->charged, op.fetch->pageable);
    if (op.store.value > 0 && !rig_.unified()) copy_out(g, op.store);
  }

  void copy_in(std::size_t g, Bytes bytes, Bytes charged, bool pageable) {
    const HostLink& link = rig_.links[g];
    const auto rate = pageable ? link.pageable.value : link.h2d.value;
    gpus_[g].h2d += (charged / rate).value;
    gpus_[g].vram += (charged / rig_.gpus[g].bandwidth.value).value;
    use_.add(Resource::kH2d, 0, bytes.value);
    use_.add(Resource::kRam, ram_seconds(charged), 0);
  }

  void copy_out(std::size_t g, Bytes bytes) {
    gpus_[g].d2h += (bytes / rig_.links[g].d2h.value).value;
    gpus_[g].vram += (bytes / rig_.gpus[g].bandwidth.value).value;
    use_.add(Resource::kD2h, 0, bytes.value);
    use_.add(Resource::kRam, ram_seconds(bytes), 0);
  }

  void handoff(const StepOp& op) {
    if (op.from != kHost) copy_out(std::size_t(op.from), op.handoff_bytes);
    if (op.device != kHost)
      copy_in(std::size_t(op.device), op.handoff_bytes, op.handoff_bytes, false);
  }

  const Rig& rig_;
  std::vector<GpuUse> gpus_;
  ResourceUse use_;
};

}  // namespace

ResourceUse resource_use(const Scenario& s, const Step& step) {
  Sum sum(s.rig);
  double handoffs = 0;
  for (const StepOp& op : step.ops) {
    sum.op(op);
    handoffs += op.handoffs;
  }
  sum.logits(step);
  ResourceUse use = sum.use();
  use.add(Resource::kHandoff, handoffs * s.runtime.decode.crossing.value.value);
  use.add(Resource::kHost, (step.host_work + step.sample).value);
  return use;
}

Seconds lower_bound(const Scenario& s, const Step& step) {
  const ResourceUse use = resource_use(s, step);
  return {*std::max_element(use.seconds.begin(), use.seconds.end())};
}

}  // namespace rigcast
