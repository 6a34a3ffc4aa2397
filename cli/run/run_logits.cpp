#include "cli/run/run_logits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <optional>
#include <span>
#include <sstream>
#include <vector>

#include "cli/run/token_ids.hpp"
#include "cli/shared/output.hpp"
#include "core/files/input_file.hpp"
#include "core/files/interrupt.hpp"
#include "core/text/unit_text.hpp"
#include "engine/run/npy.hpp"
#include "validation/runs/measure.hpp"

namespace rigcast::cli {
namespace {

constexpr std::size_t kMaxBytes = 1 << 30;  // of a text with ids
constexpr std::size_t kAtOnce = 32;         // tokens whose logits are in memory together

Result<std::vector<std::int32_t>> read_ids(const std::string& path, std::int64_t vocabulary) {
  const auto text = read_input(path, kMaxBytes);
  if (!text) return bad_input("--tokens: " + text.error().message, text.error().hint);
  std::istringstream in(*text);
  return read_token_ids(in, path, vocabulary);
}

std::optional<Error> written(const Scenario& s, const validation::ExecuteOptions& execute,
                             std::span<const std::int32_t> ids, const std::string& target) try {
  auto executor = validation::make_executor(s, execute);
  if (!executor) return executor.error();
  auto file = engine::NpyWriter::create(target, ids.size(), std::size_t(s.model.vocabulary));
  if (!file) return file.error();
  for (std::size_t at = 0; at < ids.size(); at += kAtOnce) {
    const auto part = ids.subspan(at, std::min(kAtOnce, ids.size() - at));
    if (auto error = file->write((*executor)->forward(part, engine::Logits::kAll))) return error;
  }
  return file->finish();
} catch (const Interrupted& e) {
  return Error{ErrorKind::kMachine, e.what()};
}

}  // namespace

int write_logits(const Scenario& s, const validation::ExecuteOptions& execute,
                 const LogitsOptions& options) {
  if (options.logits_file.empty())
    return fail(bad_input("--tokens: where should the logits go?", "--logits out.npy"));
  const auto ids = read_ids(options.tokens_file, s.model.vocabulary);
  if (!ids) return fail(ids.error());
  if (TokenCount(ids->size()) > s.workload.context)
    return fail(
        bad_input(fmt::format("--tokens: {} ids exceed the context of {}",
                              text_count(TokenCount(ids->size())), text_count(s.workload.context)),
                  fmt::format("--context {}", ids->size())));
  if (const auto warning = validation::past_training(s.model, TokenCount(ids->size())))
    std::cerr << "rigcast: " << *warning << '\n';
  const OnInterrupt on_interrupt;
  Scenario prompted = s;
  prompted.workload.prompt_tokens = TokenCount(ids->size());
  auto error = written(prompted, execute, *ids, options.logits_file);
  if (error && interrupted())
    error = Error{ErrorKind::kMachine, "interrupted before all logits were written"};
  return error ? fail(*error) : kDone;
}

}  // namespace rigcast::cli
