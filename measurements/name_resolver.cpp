#include "measurements/name_resolver.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/hardware/hardware_names.hpp"
#include "core/text/freetext.hpp"
#include "measurements/model_names.hpp"

namespace rigcast {
namespace {

constexpr double kSameParameters = 0.05;  // sources round "8.03" to "8.0"

template <class Part, class Names, class Find>
std::optional<Part> first_found(const Names& names, Find find) {
  for (const std::string& name : names)
    if (auto part = find(name)) return *std::move(part);
  return std::nullopt;
}

}  // namespace

std::optional<GpuPart> NameResolver::gpu(const std::string& stated) {
  const auto [it, fresh] = gpus_.try_emplace(stated);
  if (fresh)
    it->second = first_found<GpuPart>(simpler_gpu_names(stated),
                                      [&](const auto& name) { return catalogue_.gpu(name); });
  return it->second;
}

std::optional<CpuPart> NameResolver::cpu(const std::string& stated) {
  const auto [it, fresh] = cpus_.try_emplace(stated);
  if (fresh)
    it->second = first_found<CpuPart>(simpler_cpu_names(stated),
                                      [&](const auto& name) { return catalogue_.cpu(name); });
  return it->second;
}

std::shared_ptr<const ModelSpec> NameResolver::model(const std::string& stated,
                                                     std::optional<double> params_b) {
  const std::string key = fmt::format("{}|{}", stated, params_b.value_or(0));
  const auto [it, fresh] = models_.try_emplace(key);
  if (!fresh) return it->second;
  auto found = first_found<ModelSpec>(simpler_model_names(stated),
                                      [&](const auto& name) { return catalogue_.model(name); });
  if (found) {
    it->second = std::make_shared<const ModelSpec>(*std::move(found));
  } else if (params_b) {
    it->second = shortened_model(stated, *params_b);
  }
  return it->second;
}

std::shared_ptr<const ModelSpec> NameResolver::shortened_model(const std::string& stated,
                                                               double params_b) {
  std::string name = simpler_model_names(stated.substr(0, 100)).back();
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
