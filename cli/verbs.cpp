#include "cli/verbs.hpp"

#include <utility>

#include "cli/shared/output.hpp"

namespace rigcast::cli {

void run_with_catalogue(CLI::App& verb, const OpenCatalogue& open, Run& run,
                        std::function<int(const Catalogue&)> work) {
  verb.callback([open, &run, work = std::move(work)] {
    run = [open, work] {
      const auto catalogue = open();
      return catalogue ? work(*catalogue) : fail(catalogue.error());
    };
  });
}

}  // namespace rigcast::cli
