#pragma once
// A plan for people.

#include <string>

#include "planner/plan.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::planner {

/// What an option settles, in words: "Q4_K_M, KV q8_0, 27 of 32 layers on the GPU, ubatch 1024".
std::string option_text(const Scenario& base, const Option& option);

/// The same in few words, for a table: "Q4_K_M/q8_0, 27 of 32".
std::string short_option_text(const Scenario& base, const Option& option);

/// Why a choice is none of the best: a wish that it does not meet, or another that is as good in
/// everything; empty: it is one of them.
std::string rejection_text(const Scenario& base, const Plan& plan, const Choice& choice);

/// The best choice and the next ones, and the front.
std::string to_text(const Scenario& base, const Plan& plan, TextStyle style);

}  // namespace rigcast::planner
