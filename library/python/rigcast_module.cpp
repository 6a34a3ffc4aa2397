// The Python module's part in C++: rigcast.hpp with Python's types. library/python/rigcast has the
// rest.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "library/rigcast.hpp"

namespace py = pybind11;

namespace {

const char* name(rigcast::ForecastError::Kind kind) {
  using Kind = rigcast::ForecastError::Kind;
  switch (kind) {
    case Kind::kBadInput: return "bad_input";
    case Kind::kDoesNotFit: return "does_not_fit";
    case Kind::kMachine: return "machine";
  }
  return "";
}

// Whether a signal's handler has raised an exception, such as KeyboardInterrupt.
bool has_raised() {
  const py::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

// The JSON, and of an error its text, kind, message, hint, where and key; else None.
py::tuple forecast(const std::string& scenario, std::vector<std::int64_t> positions, bool advice,
                   bool by_context, bool exact, bool reads_files) {
  rigcast::ForecastAnswer answer;
  {
    const py::gil_scoped_release others_run;
    answer = rigcast::forecast(
        scenario, {std::move(positions), advice, by_context, exact, reads_files, has_raised});
  }
  if (PyErr_Occurred()) throw py::error_already_set();
  if (!answer.error) return py::make_tuple(answer.json, py::none());
  const rigcast::ForecastError& e = *answer.error;
  return py::make_tuple(answer.json,
                        py::make_tuple(e.text(), name(e.kind), e.message, e.hint, e.where, e.key));
}

}  // namespace

PYBIND11_MODULE(_rigcast, module) {
  module.attr("version") = RIGCAST_VERSION_TEXT;
  module.def("forecast", &forecast);
}
