#pragma once
// Messages of errors of the machine.

#include <string>

#include "core/base/error.hpp"

namespace rigcast::test {

/// The text of the MachineError that `job` throws.
template <class Job>
std::string machine_error(const Job& job) {
  try {
    job();
  } catch (const MachineError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace rigcast::test
