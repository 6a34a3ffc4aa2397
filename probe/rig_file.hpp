#pragma once
// The text of a rig file, key by key.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/units.hpp"
#include "probe/samples.hpp"

namespace rigcast::probe {

/// Every figure is written with its number of samples, spread, method and date. Figures that were
/// not measured (n is 0) are left out.
class RigFile {
 public:
  explicit RigFile(std::string date) : date_(std::move(date)) {}

  void line(std::string_view text) { out_ += std::string(text) + "\n"; }
  /// Control characters and quotes are left out: names come from vendors.
  void text(std::string_view key, std::string_view value);
  void texts(std::string_view key, const std::vector<std::string>& values);
  void number(std::string_view key, int value);
  void flag(std::string_view key, bool value);
  void rate(std::string_view key, const Samples& bytes_per_s, std::string_view how);
  void frequency(std::string_view key, const Samples& hertz, std::string_view how);
  void flops(std::string_view key, const Samples& flops_per_s, std::string_view how);
  void time(std::string_view key, const Samples& seconds, std::string_view how);
  void size(std::string_view key, const Samples& bytes, std::string_view how);
  void small_size(std::string_view key, Bytes value, std::string_view how);  // in KiB
  void size(std::string_view key, Bytes value, std::string_view how);

  std::string take() { return std::exchange(out_, {}); }

 private:
  void figure(std::string_view key, const std::string& value, const Samples& samples,
              std::string_view how);

  std::string date_;
  std::string out_;
};

}  // namespace rigcast::probe
