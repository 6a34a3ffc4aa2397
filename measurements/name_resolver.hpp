#pragma once
// The catalogue by names as people write them, each looked up once.

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/catalogue/catalogue.hpp"
#include "core/model/tensor_table.hpp"

namespace rigcast {

class NameResolver {
 public:
  explicit NameResolver(const Catalogue& catalogue) : catalogue_(catalogue) {}

  const Catalogue& catalogue() const { return catalogue_; }

  /// An Error: the catalogue has none by this name or a simpler one, or several.
  Result<GpuPart> gpu(const std::string& stated);
  /// nullopt: the catalogue has none.
  std::optional<CpuPart> cpu(const std::string& stated);
  /// If the number of parameters is known, trailing words may be dropped while it agrees.
  std::shared_ptr<const ModelSpec> model(const std::string& stated, std::optional<double> params_b);

  struct FileSize {
    double bytes = 0;
    double elements = 0;
  };
  /// Size of the model's tensors under a mix; nullopt: the mix does not support them.
  std::optional<FileSize> size_of(const ModelSpec& model, const std::string& mix);

 private:
  std::shared_ptr<const ModelSpec> shortened_model(const std::string& stated, double params_b);

  Catalogue catalogue_;
  std::map<std::string, Result<GpuPart>> gpus_;
  std::map<std::string, std::optional<CpuPart>> cpus_;
  std::map<std::string, std::shared_ptr<const ModelSpec>> models_;
  std::map<std::string, std::optional<FileSize>> sizes_;
};

}  // namespace rigcast
