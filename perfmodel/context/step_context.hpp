#pragma once
// The parts of a scenario on which a forecast depends. Both structs refer to a scenario, which must
// outlive them.

#include <algorithm>

#include "core/model/traffic.hpp"
#include "core/scenario/scenario.hpp"
#include "core/serving/pool_tokens.hpp"

namespace rigcast {

/// The inputs of a step's cost other than its batch. The workload is not among them.
struct StepContext {
  // The conversion is implicit: a scenario may be passed wherever the cost of a step is computed.
  StepContext(const Scenario& s)  // NOLINT(google-explicit-constructor)
      : rig(s.rig),
        model(s.model),
        tensors(s.tensors),
        runtime(s.runtime),
        placement(s.placement),
        kv(s.kv),
        settings(s.settings),
        projector(s.projector ? &*s.projector : nullptr),
        draft(s.draft ? &*s.draft : nullptr),
        memory(s.memory ? &*s.memory : nullptr) {}
  /// The draft model beside the model, on the same machine.
  StepContext(const StepContext& s, const DraftModel& d)
      : rig(s.rig),
        model(d.model),
        tensors(d.tensors),
        runtime(s.runtime),
        placement(d.placement),
        kv(d.kv),
        settings(s.settings),
        memory(s.memory) {}

  /// The correction of this runtime's speed on the rig, from the rig's own runs; nullptr: none.
  const Correction* correction() const { return rig.correction(runtime.id); }

  const Rig& rig;
  const ModelSpec& model;
  const TensorTable& tensors;
  const RuntimeProfile& runtime;
  const PlacementSettings& placement;
  const KvSettings& kv;
  const RuntimeSettings& settings;
  const Projector* projector = nullptr;    // nullptr: none
  const DraftModel* draft = nullptr;       // nullptr: none
  const MemorySettings* memory = nullptr;  // nullptr: the scenario states none
};

/// The inputs of a memory plan other than its batch: those of a step, and what is allocated for
/// before any sequence arrives.
struct MemoryContext : StepContext {
  MemoryContext(const Scenario& s)  // NOLINT(google-explicit-constructor)
      : StepContext(s),
        context(s.workload.context),
        longest_prompt{s.workload.depth, s.workload.prompt_tokens},
        slots(s.load && s.scheduler && s.scheduler->layout == KvLayout::kSlots
                  ? s.scheduler->sequences
                  : 1),
        pool(s.load && s.scheduler && s.scheduler->layout == KvLayout::kBlocks &&
                     s.scheduler->pool == PoolRule::kTokens
                 ? pool_tokens(s)
                 : PoolTokens{}),
        scheduler(s.scheduler ? &*s.scheduler : nullptr),
        has_load(s.load.has_value()),
        reads_file(s.model_file || s.workload.start != Start::kResident),
        others(s.memory && !s.memory->timeline.empty() ? s.memory->timeline.front().other
                                                       : Bytes{}) {}

  /// The draft model, with the same context.
  MemoryContext(const MemoryContext& s, const DraftModel& d)
      : StepContext(s, d),
        context(s.context),
        longest_prompt(s.longest_prompt),
        slots(s.slots),
        pool(s.pool),
        scheduler(s.scheduler),
        has_load(s.has_load),
        reads_file(s.reads_file),
        others(s.others) {}

  /// One sequence of `cached` tokens for every slot, which began with the longest prompt; of a pool
  /// of tokens, one with the least that it has.
  Batch sequences_of(TokenCount cached) const {
    if (pool.least > 0) return {pool.least, 0};
    const Sequence one{cached, 0, longest_prompt.cached, longest_prompt.tokens};
    return {std::vector<Sequence>(slots, one), 1};
  }
  /// The largest batch of the longest prompt, after its depth.
  Batch longest_batch() const {
    return {longest_prompt.cached,
            std::clamp<TokenCount>(longest_prompt.tokens, 1, settings.ubatch)};
  }

  TokenCount context;                          // the limit of a sequence
  Sequence longest_prompt;                     // as if one step computed all of it
  std::size_t slots = 1;                       // sequences that a server keeps a cache for
  PoolTokens pool;                             // of a server's pool of tokens; 0: there is none
  const SchedulerPolicy* scheduler = nullptr;  // of a server; nullptr: it has none
  bool has_load = false;                       // of a server: requests come and end
  bool reads_file;                             // weights are read from a file
  Bytes others;  // of other programs, by the timeline's first entry: what holds for the answer
};

}  // namespace rigcast
