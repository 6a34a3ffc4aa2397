#include "perfmodel/resource_use.hpp"

#include <algorithm>

#include "perfmodel/pressure/paging_time.hpp"

namespace rigcast {
namespace {

struct GpuUse {
  double vram = 0, h2d = 0, d2h = 0, compute = 0, launch = 0;
};

class Sum {
 public:
  explicit Sum(const StepContext& s) : s_(s), gpus_(s.rig.gpus.size()) {}

  void op(const StepOp& op) {
    if (op.device == kHost) {
      host(op.cost);
    } else {
      gpu(op);
    }
    if (op.host_part) host(*op.host_part);
    handoff(op);
  }

  void host_work(const Step& step) {
    if (step.logits.value > 0) copy_out(step.logits_from, step.logits);
    const Seconds mask = step.beside.value > 0
                             ? step.beside - step.host_work - launch_time(step.ops, {})
                             : Seconds{};
    use_.add(Resource::kHostWork, (step.host_work + step.sample + mask).value);
    use_.add(Resource::kSsd, page_in_time(s_, step.page_in).value,
             (step.page_in.files + step.page_in.swapped).value);
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
  double read_seconds(Bytes equivalent_bytes, DeviceIndex device) const {
    return memory_time(s_, equivalent_bytes, device).value;
  }

  void host(const OpCost& c) {
    use_.add(Resource::kRam, read_seconds(c.equivalent_bytes, kHost), c.bytes.value);
    use_.add(Resource::kCpu, (c.compute + c.serial).value);
    use_.add(Resource::kHostWork, (c.overhead - c.serial).value);
  }

  GpuUse& use_of(DeviceIndex gpu) { return gpus_[std::size_t(gpu)]; }

  void gpu(const StepOp& op) {
    GpuUse& u = use_of(op.device);
    u.launch += (op.cost.overhead - op.cost.serial).value;
    u.compute += (op.cost.compute + op.cost.serial).value;
    const double read = read_seconds(op.cost.equivalent_bytes, op.device);
    if (s_.rig.unified()) {
      use_.add(Resource::kRam, read, op.cost.bytes.value);
    } else {
      u.vram += read;
      use_.add(Resource::kVram, 0, op.cost.bytes.value);
    }
    if (op.fetch)
      copy_in(op.device, op.fetch->bytes, op.fetch->equivalent_bytes, op.fetch->pageable);
    if (op.store.value > 0 && !s_.rig.unified()) copy_out(op.device, op.store);
  }

  void copy_in(DeviceIndex gpu, Bytes bytes, Bytes equivalent_bytes, bool pageable) {
    use_of(gpu).h2d += (equivalent_bytes / h2d_rate(s_, gpu, pageable)).value;
    use_of(gpu).vram += read_seconds(equivalent_bytes, gpu);
    use_.add(Resource::kH2d, 0, bytes.value);
    use_.add(Resource::kRam, read_seconds(equivalent_bytes, kHost), 0);
  }

  void copy_out(DeviceIndex gpu, Bytes bytes) {
    use_of(gpu).d2h += (bytes / s_.rig.links[std::size_t(gpu)].d2h.value).value;
    use_of(gpu).vram += read_seconds(bytes, gpu);
    use_.add(Resource::kD2h, 0, bytes.value);
    use_.add(Resource::kRam, read_seconds(bytes, kHost), 0);
  }

  void handoff(const StepOp& op) {
    const Handoff h = handoff_of(s_, op);
    const Bytes bytes = op.handoff_bytes;
    use_.add(Resource::kHandoff, h.wait.value);
    if (bytes.value <= 0) return;
    if (h.copies_out)
      copy_out(op.from, bytes);
    else if (op.from != kHost)
      use_.add(Resource::kD2h, 0, bytes.value);
    if (h.copies_in)
      copy_in(op.device, bytes, bytes, false);
    else if (op.device != kHost)
      use_.add(Resource::kH2d, 0, bytes.value);
  }

  const StepContext s_;
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
