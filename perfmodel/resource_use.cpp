#include "perfmodel/resource_use.hpp"

#include <algorithm>

namespace rigcast {
namespace {

struct GpuUse {
  double vram = 0, h2d = 0, d2h = 0, compute = 0, launch = 0;
};

class Sum {
 public:
  explicit Sum(const StepContext& s) : s_(s), rig_(s.rig), gpus_(s.rig.gpus.size()) {}

  void op(const StepOp& op) {
    if (op.device == kHost) {
      host(op.cost);
    } else {
      gpu(std::size_t(op.device), op);
    }
    if (op.host_part) host(*op.host_part);
    handoff(op);
  }

  void host_work(const Step& step) {
    if (step.logits.value > 0) copy_out(std::size_t(step.logits_from), step.logits);
    use_.add(Resource::kHostWork, (step.host_work + step.sample).value);
  }

  // The sum over the GPUs: the layers of a split run one after the other.
  ResourceUse use() const {
    ResourceUse sum = use_;
    for (const GpuUse& g : gpus_) {
      sum.add(Resource::kVram, g.vram);
      sum.add(Resource::kH2d, g.h2d);
      sum.add(Resource::kD2h, g.d2h);
      sum.add(Resource::kGpu, g.compute);
      sum.add(Resource::kLaunch, g.launch);
    }
    return sum;
  }

  // The busiest single resource, with each GPU's resources counted separately.
  double busiest() const {
    double most = *std::ranges::max_element(use_.seconds);
    for (const GpuUse& g : gpus_)
      most = std::max({most, g.vram, g.h2d, g.d2h, g.compute, g.launch});
    return most;
  }

 private:
  double ram_seconds(Bytes b) const { return (b / rig_.ram.bandwidth.value).value; }

  void host(const OpCost& c) {
    use_.add(Resource::kRam, ram_seconds(c.equivalent_bytes), c.bytes.value);
    use_.add(Resource::kCpu, c.compute.value);
    use_.add(Resource::kHostWork, c.overhead.value);
  }

  void gpu(std::size_t g, const StepOp& op) {
    GpuUse& u = gpus_[g];
    u.launch += op.cost.overhead.value;
    u.compute += op.cost.compute.value;
    if (rig_.unified()) {
      use_.add(Resource::kRam, ram_seconds(op.cost.equivalent_bytes), op.cost.bytes.value);
    } else {
      u.vram += (op.cost.equivalent_bytes / rig_.gpus[g].bandwidth.value).value;
      use_.add(Resource::kVram, 0, op.cost.bytes.value);
    }
    if (op.fetch) copy_in(g, op.fetch->bytes, op.fetch->equivalent_bytes, op.fetch->pageable);
    if (op.store.value > 0 && !rig_.unified()) copy_out(g, op.store);
  }

  void copy_in(std::size_t g, Bytes bytes, Bytes equivalent_bytes, bool pageable) {
    const HostLink& link = rig_.links[g];
    const auto rate = pageable ? link.pageable.value : link.h2d.value;
    gpus_[g].h2d += (equivalent_bytes / rate).value;
    gpus_[g].vram += (equivalent_bytes / rig_.gpus[g].bandwidth.value).value;
    use_.add(Resource::kH2d, 0, bytes.value);
    use_.add(Resource::kRam, ram_seconds(equivalent_bytes), 0);
  }

  void copy_out(std::size_t g, Bytes bytes) {
    gpus_[g].d2h += (bytes / rig_.links[g].d2h.value).value;
    gpus_[g].vram += (bytes / rig_.gpus[g].bandwidth.value).value;
    use_.add(Resource::kD2h, 0, bytes.value);
    use_.add(Resource::kRam, ram_seconds(bytes), 0);
  }

  void handoff(const StepOp& op) {
    const Handoff h = handoff_of(s_, op);
    const Bytes bytes = op.handoff_bytes;
    use_.add(Resource::kHandoff, h.wait.value);
    if (bytes.value <= 0) return;
    if (h.copies_out)
      copy_out(std::size_t(op.from), bytes);
    else if (op.from != kHost)
      use_.add(Resource::kD2h, 0, bytes.value);
    if (h.copies_in)
      copy_in(std::size_t(op.device), bytes, bytes, false);
    else if (op.device != kHost)
      use_.add(Resource::kH2d, 0, bytes.value);
  }

  const StepContext s_;
  const Rig& rig_;
  std::vector<GpuUse> gpus_;
  ResourceUse use_;
};

Sum sum_of(const StepContext& s, const Step& step) {
  Sum sum(s);
  for (const StepOp& op : step.ops) sum.op(op);
  sum.host_work(step);
  return sum;
}

}  // namespace

ResourceUse& ResourceUse::operator+=(const ResourceUse& other) {
  for (std::size_t r = 0; r < seconds.size(); ++r) {
    seconds[r] += other.seconds[r];
    bytes[r] += other.bytes[r];
  }
  return *this;
}

ResourceUse resource_use(const StepContext& s, const Step& step) { return sum_of(s, step).use(); }

Seconds lower_bound(const StepContext& s, const Step& step) { return {sum_of(s, step).busiest()}; }

}  // namespace rigcast
