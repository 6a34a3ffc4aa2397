#include "perfmodel/runtimes/runtime_models.hpp"

#include "perfmodel/runtimes/llama_cpp.hpp"
#include "perfmodel/runtimes/paged_server.hpp"
#include "perfmodel/runtimes/rigcast.hpp"
#include "perfmodel/runtimes/transformers.hpp"

namespace rigcast {

const RuntimeModel& runtime_model(const RuntimeProfile& profile) {
  static const LlamaCpp llama_cpp;
  static const Transformers transformers;
  static const RigcastEngine rigcast;
  static const PagedServer paged_server;
  switch (profile.rules) {
    case RuntimeRules::kTransformers: return transformers;
    case RuntimeRules::kRigcast: return rigcast;
    case RuntimeRules::kPagedServer: return paged_server;
    case RuntimeRules::kLlamaCpp: break;
  }
  return llama_cpp;
}

}  // namespace rigcast
