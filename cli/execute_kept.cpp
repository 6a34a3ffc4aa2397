// The verb of the process that a validation starts for each of its runs.
#include <memory>

#include "cli/run_apart.hpp"
#include "cli/verbs.hpp"

namespace rigcast::cli {

void add_execute_kept(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand(kApartVerb, "Execute one run of a validation");
  verb->group("");  // not for people
  auto options = std::make_shared<ApartOptions>();
  options->add_to(*verb);
  run_with_catalogue(*verb, open, run, [options](const Catalogue& catalogue) {
    return executed_for_another(*options, catalogue);
  });
}

}  // namespace rigcast::cli
