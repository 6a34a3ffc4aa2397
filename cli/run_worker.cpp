// The verb of the process that a validation starts for each of its runs.
#include <memory>
#include <string>

#include "cli/shared/output.hpp"
#include "cli/verbs.hpp"
#include "validation/runs/subprocess.hpp"

namespace rigcast::cli {

void add_run_worker(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand(validation::kWorkerVerb, "Execute one run of a validation");
  verb->group("");  // not for people
  auto request = std::make_shared<std::string>();
  verb->add_option("request", *request, "as JSON")->required();
  run_with_catalogue(*verb, open, run, [request](const Catalogue& catalogue) {
    const auto answer = validation::answer_request(*request, catalogue);
    if (!answer) return fail(answer.error());
    if (auto error = emit({}, *answer)) return fail(*error);
    return int(kDone);
  });
}

}  // namespace rigcast::cli
