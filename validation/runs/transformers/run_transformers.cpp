#include "validation/runs/transformers/run_transformers.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "validation/runs/process/child_process.hpp"

namespace rigcast::validation {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr Seconds kVersionsTime{60};
constexpr const char* kInstall =
    "pip install torch transformers, or name a Python that has both with --python";

// What a script that ended well printed, as `parse` reads it, or how it ended.
template <class Parse>
auto result_of(const ProcessOutput& p, Seconds limit, Parse parse) -> decltype(parse(p.out)) {
  std::string message = end_text("the script of transformers", p, limit);
  if (message.empty()) {
    auto parsed = parse(p.out);
    if (parsed || parsed.error().kind != ErrorKind::kMachine) return parsed;
    message = parsed.error().message;
  }
  const std::string told = last_lines(p.err);
  if (!told.empty()) message += ": " + told;
  return Error{tells_of_memory(p.err) ? ErrorKind::kDoesNotFit : ErrorKind::kMachine, message};
}

std::optional<Error> check_asked(const TransformersOutput& out, const std::string& request) {
  const Json asked = Json::parse(request);
  const bool same =
      asked.at("prompt_tokens") == out.prompt && asked.at("output_tokens") == out.output &&
      asked.at("depth") == out.depth && asked.at("repeat") == out.ttft_s.size() &&
      asked.at("prompt_device") == out.prompt_device &&
      asked.at("decode_device") == out.decode_device && asked.at("attention") == out.attention;
  if (same) return std::nullopt;
  return Error{ErrorKind::kMachine, "transformers measured something else than " + request};
}

}  // namespace

Result<TransformersPython> find_transformers(const std::optional<std::string>& path,
                                             const fs::path& root) {
  const auto program = find_program("python3", path, kInstall);
  if (!program) return program.error();
  TransformersPython python{*program, root / "scripts/run_transformers.py", {}};
  std::error_code ignored;
  if (!fs::is_regular_file(python.script, ignored))
    return bad_input(fmt::format("there is no {}", python.script.string()),
                     "RIGCAST_DATA with a folder of rigcast's data that has it");
  const auto process = run_process({python.program, python.script.string(), "--versions"},
                                   {kVersionsTime, 1 << 16, 1 << 16});
  if (!process) return bad_input(process.error().message, kInstall);
  auto versions = result_of(*process, kVersionsTime, parse_transformers_versions);
  if (!versions) return bad_input(versions.error().message, kInstall);
  python.versions = *std::move(versions);
  return python;
}

TransformersRun run_transformers(const TransformersPython& python, const std::string& request,
                                 Seconds time_limit) {
  TransformersRun run;
  run.command = {python.program, python.script.string(), request};
  ProcessLimits limits;
  limits.time = time_limit;
  auto process = run_process(run.command, limits);
  if (!process) {
    run.error = process.error();
    return run;
  }
  auto output = result_of(*process, time_limit, parse_transformers_output);
  run.out = std::move(process->out);
  run.err = std::move(process->err);
  if (output)
    run.error = check_asked(*output, request);
  else
    run.error = output.error();
  if (!run.error) run.output = *std::move(output);
  return run;
}

}  // namespace rigcast::validation
