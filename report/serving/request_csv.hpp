#pragma once
// What became of each request of a load, as a table.

#include <string>

#include "report/serving/serving_figures.hpp"

namespace rigcast {

/// CSV: a row for each request, in order of arrival. Times are seconds since the load's start:
/// `arrival_s` at the server, `queued_s` at its scheduler, `scheduled_s` in the first step,
/// `first_token_s`, `last_token_s`. Tokens: of the prompt, of the answer, and those of the prompt
/// that were found in the cache, and in its tiers in RAM and on disk, when it was first scheduled.
std::string request_csv(const ServedLoad& served);

}  // namespace rigcast
