#pragma once
// The page's address: what is asked stands in it, as web/app/address.js reads it.

#include <string>
#include <utility>
#include <vector>

namespace rigcast::cli {

/// Keys of a scenario, and their values.
using Asked = std::vector<std::pair<std::string, std::string>>;

/// "#forecast?model.name=llama-3.1-8b"; without a question it is empty.
std::string fragment_of(const Asked& asked);

}  // namespace rigcast::cli
