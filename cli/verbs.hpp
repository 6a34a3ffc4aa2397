#pragma once
// One function per verb: it declares the verb's options and its action.

#include <CLI/App.hpp>
#include <functional>

#include "core/catalogue/catalogue.hpp"

namespace rigcast::cli {

/// Opens the catalogue when a verb needs it.
using OpenCatalogue = std::function<Result<Catalogue>()>;
/// Runs the chosen verb; gives the exit code.
using Run = std::function<int()>;

/// Once the verb is chosen, `run` is to do `work` with the catalogue, or to fail without one.
void run_with_catalogue(CLI::App& verb, const OpenCatalogue& open, Run& run,
                        std::function<int(const Catalogue&)> work);

void add_recommend(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_simulate(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_explain(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_capacity(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_plan(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_compare(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_sweep(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_validate(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_inspect(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_calibrate(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_serve(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_run_worker(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_run(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_probe(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_synth(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_tokenize(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_list(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_ui(CLI::App& app, const OpenCatalogue& open, Run& run);
void add_show(CLI::App& app, const OpenCatalogue& open, Run& run);

}  // namespace rigcast::cli
