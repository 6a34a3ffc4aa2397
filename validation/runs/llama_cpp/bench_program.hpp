#pragma once
// A program of llama.cpp that measures: where it is, which flags it has, how a run of it failed.

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "validation/runs/llama_cpp/child_process.hpp"

namespace rigcast::validation {

bool is_program(const std::filesystem::path& file);
/// The first program of that name in $PATH, as an absolute path.
std::optional<std::string> program_on_path(const std::string& name);

/// Words such as -p and --n-prompt in lines of a --help that begin with one, before what they mean.
std::set<std::string> flags_in(const std::string& help);

/// The end of what a program wrote, some lines of it, without control characters.
std::string last_lines(const std::string& text);
/// How the program `name` ended; "" after exit code 0.
std::string end_text(const ProcessOutput& process, const std::string& name, Seconds limit);
/// `message` with what the program wrote last: kDoesNotFit where that says that memory did not
/// suffice, else kMachine.
Error process_error(const ProcessOutput& process, std::string message);

}  // namespace rigcast::validation
