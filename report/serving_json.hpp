#pragma once
// A load on a server as a part of the report's JSON.

#include <nlohmann/json.hpp>

#include "report/serving/serving_report.hpp"

namespace rigcast {

/// `report/1`'s `serving`: docs/report.md.
nlohmann::ordered_json serving_json(const ServingReport& serving);

/// The figures alone, as in a list of loads.
nlohmann::ordered_json serving_figures_json(const ServingFigures& figures);

}  // namespace rigcast
