#pragma once
// What parts and machines cost: rows of a file that people may copy and edit. Schema:
// hwprofiles/README.md.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/hardware/rig.hpp"

namespace rigcast {

enum class PriceKind { kStreet, kUsed, kLaunch };  // in the order in which rows of a part count
std::string_view name(PriceKind kind);

/// One row, in USD without tax.
struct Price {
  std::string part;  // the id of a part or a rig, "ddr5:1GiB", "nvme:1TB", "base"
  double usd = 0;
  PriceKind kind = PriceKind::kStreet;
  std::string date;  // "YYYY-MM"
  std::string source;
  double count = 1;  // of what the row prices, in `usd`
};

class PriceList {
 public:
  static Result<PriceList> read(const std::filesystem::path& file);

  /// Rows of `own` come before those of this list.
  void put_before(const PriceList& own);
  /// `usd` for the part, before all rows.
  void set(std::string part, double usd);

  /// The row that counts for an id: of the first list that has one, the newest street price, else
  /// the newest used one, else a launch price.
  std::optional<Price> find(std::string_view id) const;
  const std::vector<Price>& rows() const { return rows_; }

 private:
  std::vector<Price> rows_;  // the one that counts for a part comes before its others
};

/// What a machine or a part of it costs: the sum over its parts.
struct PartsPrice {
  std::optional<double> usd;          // nullopt: a part has no price
  std::vector<Price> parts;           // what was added up
  std::vector<std::string> unpriced;  // names of the parts without a price

  void add(const std::optional<Price>& price, std::string_view name, double count = 1);
};

/// The GPUs of a rig: from the list, else their launch prices.
PartsPrice price_of_gpus(const Rig& rig, const PriceList& list);
/// The whole machine: by its id in the list, else the sum of GPUs, CPU, RAM, drive, and case,
/// board and power supply.
PartsPrice price_of_rig(const Rig& rig, std::string_view rig_id, const PriceList& list);
PartsPrice price_of_part(const PartInfo& part, const PriceList& list);
/// Of its size, in which a kit is known or else priced by the GiB.
PartsPrice price_of_ram(const RamKit& kit, const PriceList& list);

}  // namespace rigcast
