#pragma once
// A shard: one of the parts of a sweep that several processes or machines make.

#include <functional>
#include <string>

#include "core/base/error.hpp"

namespace rigcast::cli {

/// The second of eight is {2, 8}: counted from 1.
struct Shard {
  int index = 1, count = 1;
};

/// A variable of the environment, or nullptr; std::getenv is one.
using Environment = std::function<const char*(const char* name)>;

/// "2/8". "auto" is the task of a job array in which this runs, of as many as the array has tasks;
/// "auto/8" the task whose number is the shard, of eight. Errors: another text; no array's
/// variables, or those of several; an array that says no number of tasks, or has gaps.
Result<Shard> parse_shard(const std::string& text, const Environment& environment);

}  // namespace rigcast::cli
