#include "measurements/name_resolver.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/model/model_names.hpp"
#include "core/text/freetext.hpp"

namespace rigcast {
namespace {

constexpr double kSameParameters = 0.05;  // sources round "8.03" to "8.0"

// Benchmarks name a model with its size beside it: "DeepSeek-V3 671B".
std::vector<std::string> names_of_model(const std::string& stated) {
  std::vector<std::string> names = stated_model(stated).names;
  if (names.empty()) return names;
  const std::string last = names.back();
  const std::string sizeless = freetext::replaced(last, R"(\s+\d{1,4}(?:\.\d)?B$)", "");
  if (sizeless == last) return names;
  for (std::string& name : stated_model(sizeless).names) names.push_back(std::move(name));
  return names;
}

}  // namespace

Result<GpuPart> NameResolver::gpu(const std::string& stated) {
  if (const auto known = gpus_.find(stated); known != gpus_.end()) return known->second;
  return gpus_.emplace(stated, catalogue_.gpu(stated)).first->second;
}

std::optional<CpuPart> NameResolver::cpu(const std::string& stated) {
  const auto [it, fresh] = cpus_.try_emplace(stated);
  if (!fresh) return it->second;
  if (auto part = catalogue_.cpu(stated)) it->second = *std::move(part);
  return it->second;
}

std::shared_ptr<const ModelSpec> NameResolver::model(const std::string& stated,
                                                     std::optional<double> params_b) {
  const std::string key = fmt::format("{}|{}", stated, params_b.value_or(0));
  const auto [it, fresh] = models_.try_emplace(key);
  if (!fresh) return it->second;
  for (const std::string& name : names_of_model(stated)) {
    auto found = catalogue_.model(name);
    if (!found) continue;
    it->second = std::make_shared<const ModelSpec>(*std::move(found));
    return it->second;
  }
  if (params_b) it->second = shortened_model(stated, *params_b);
  return it->second;
}

std::shared_ptr<const ModelSpec> NameResolver::shortened_model(const std::string& stated,
                                                               double params_b) {
  const auto names = names_of_model(stated.substr(0, 100));
  std::string name = names.empty() ? "" : names.back();
  for (auto end = name.find_last_of("-_ "); end != std::string::npos && end > 0;
       end = name.find_last_of("-_ ")) {
    name.resize(end);
    auto model = catalogue_.model(name);
    if (!model) continue;
    const auto size = size_of(*model, "Q8_0");
    if (size && std::abs(size->elements / 1e9 / params_b - 1) < kSameParameters)
      return std::make_shared<const ModelSpec>(*std::move(model));
  }
  return nullptr;
}

std::optional<NameResolver::FileSize> NameResolver::size_of(const ModelSpec& model,
                                                            const std::string& mix) {
  const auto [it, fresh] = sizes_.try_emplace(model.id + "|" + mix);
  if (!fresh) return it->second;
  const auto rule = QuantMix::from_name(mix);
  if (!rule) return std::nullopt;
  if (const auto table = make_tensor_table(model, *rule))
    it->second = FileSize{double(table->bytes()), double(table->elements())};
  return it->second;
}

}  // namespace rigcast
