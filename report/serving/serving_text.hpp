#pragma once
// What a load gets of a server, in lines for people.

#include <string>
#include <vector>

#include "core/scenario/slo.hpp"
#include "report/serving/serving_report.hpp"

namespace rigcast {

/// A label, what it is, and what is to be said beside it.
struct ServingLine {
  std::string label, figures, beside;
};

/// In the order in which people ask: what users see, what all get, what fills up. `engines`: that
/// share the load, each with its own cache.
std::vector<ServingLine> serving_lines(const ServingReport& serving, const Slo& slo,
                                       int engines = 1);

/// "prompts 61 % of the steps' time; slots full 22 % of the time".
std::string limit_text(const ServingFigures& figures);
/// What the context left out of the load; empty: nothing.
std::string shortened_text(const ServingFigures& figures);

}  // namespace rigcast
