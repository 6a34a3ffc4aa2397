#include "engine/backends/cpu/load_for_cpu.hpp"

#include "engine/load/host_weights.hpp"
#include "engine/load/load.hpp"
#include "engine/memory/large_pages.hpp"

namespace rigcast::engine {
namespace {

Result<Model> load_copied(const GgufFile& file, const ExecutorOptions& options) {
  const auto mapped = load_mapped(file, false);
  if (!mapped) return mapped.error();
  HostWeightsOptions how;
  if (options.weight_memory) how.make = options.weight_memory;
  how.readers = options.upload_threads;
  how.keep_going = [stop = options.stop] {
    stop.throw_if_requested();
    return true;
  };
  return with_host_weights(*mapped, HostPlacement::whole_model(), &file, how);
}

}  // namespace

Result<Model> load_for_cpu(const GgufFile& file, const ExecutorOptions& options) {
  switch (options.weights) {
    case WeightPages::kTouched: return load_with_pages(file, options.stop);
    case WeightPages::kLazy: return load_mapped(file, false);
    case WeightPages::kInOrder: return load_mapped(file, true);
    case WeightPages::kCopied: return load_copied(file, options);
  }
  RIGCAST_ASSERT(false);
}

}  // namespace rigcast::engine
