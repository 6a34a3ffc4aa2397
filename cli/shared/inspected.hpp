#pragma once
// The contents of `rigcast inspect`, for a model of the catalogue or a file, and its three output
// formats.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/model/model_spec.hpp"
#include "core/model/tensor_table.hpp"

namespace rigcast::cli {

struct ListedTensor {
  std::string name;
  std::vector<std::uint64_t> shape;  // shape[0] is the row
  std::string type;
  std::uint64_t bytes = 0;

  std::uint64_t elements() const;
};

struct FileValue {
  std::string key;
  std::string text;                                           // for people
  std::variant<std::string, bool, std::int64_t, double> raw;  // arrays: how many of what
};

struct FileFacts {
  std::string path;
  std::uint32_t version = 0;
  std::uint32_t alignment = 0;
  std::size_t parts = 0;
  std::uint64_t bytes = 0;          // of all parts
  std::vector<FileValue> metadata;  // in the file's order
};

struct Inspected {
  std::optional<ModelSpec> spec;       // nullopt: only what the file says can be shown
  std::string quant;                   // empty where not known
  std::optional<double> active_bytes;  // read for one token
  std::vector<ListedTensor> tensors;
  std::optional<FileFacts> file;
  std::vector<std::string> warnings;
  std::string note;    // what is not known of the tensors
  std::string reason;  // why the spec or the active bytes are not known
};

std::string to_json(const Inspected& model);  // "rigcast.model/1"
std::string to_csv(const Inspected& model);   // a line a tensor
/// `width`: columns of the terminal; 0: it goes elsewhere.
std::string to_text(const Inspected& model, bool list_tensors, std::size_t width);

}  // namespace rigcast::cli
