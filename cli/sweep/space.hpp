#pragma once
// Scenarios that differ in some keys: every combination of their values.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast::cli {

/// A key of the scenario file and the values that it takes, in TOML syntax or as text.
struct SweptKey {
  std::string key;
  std::vector<std::string> values;
};

/// "kv.policy=vram,ram", "placement.gpu_layers=0..32" or "0..32:4"; brackets and quotes hold commas
/// together.
Result<SweptKey> parse_swept_key(const std::string& text);

class SweepSpace {
 public:
  /// Makes the space of distinct keys. Errors: more than 100 million scenarios.
  static Result<SweepSpace> make(std::vector<SweptKey> keys);

  std::int64_t size() const { return size_; }
  const std::vector<SweptKey>& keys() const { return keys_; }
  /// The values of scenario `index`, one for each key; the last key's value changes fastest.
  std::vector<std::string> values(std::int64_t index) const;
  /// How many scenarios have one value of key `key`, and the index of the i-th that has its value
  /// `value`; all count from 0.
  std::int64_t size_with(std::size_t key) const;
  std::int64_t index_with(std::size_t key, std::int64_t value, std::int64_t i) const;

 private:
  std::vector<SweptKey> keys_;
  std::int64_t size_ = 1;
};

}  // namespace rigcast::cli
