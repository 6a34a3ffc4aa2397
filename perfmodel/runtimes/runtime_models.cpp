#include "perfmodel/runtimes/runtime_models.hpp"

#include "perfmodel/runtimes/llama_cpp.hpp"
#include "perfmodel/runtimes/rigcast.hpp"
#include "perfmodel/runtimes/transformers.hpp"
#include "perfmodel/runtimes/vllm.hpp"

namespace rigcast {

const RuntimeModel& runtime_model(const RuntimeProfile& profile) {
  static const LlamaCpp llama_cpp;
  static const Transformers transformers;
  static const RigcastEngine rigcast;
  static const Vllm vllm;
  switch (profile.rules) {
    case RuntimeRules::kTransformers: return transformers;
    case RuntimeRules::kRigcast: return rigcast;
    case RuntimeRules::kVllm: return vllm;
    case RuntimeRules::kLlamaCpp: break;
  }
  return llama_cpp;
}

}  // namespace rigcast
