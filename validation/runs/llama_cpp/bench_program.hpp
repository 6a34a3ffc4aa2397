#pragma once
// A program of llama.cpp that measures: which flags it has, and how a run of it failed.

#include <set>
#include <string>

#include "core/base/error.hpp"
#include "validation/runs/process/child_process.hpp"

namespace rigcast::validation {

/// Words such as -p and --n-prompt in lines of a --help that begin with one, before what they mean.
std::set<std::string> flags_in(const std::string& help);

/// `message` with what the program wrote last: kDoesNotFit where that says that memory did not
/// suffice, else kMachine.
Error process_error(const ProcessOutput& process, std::string message);

}  // namespace rigcast::validation
