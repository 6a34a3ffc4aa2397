#include "cli/run_logits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <vector>

#include "cli/interrupt.hpp"
#include "cli/output.hpp"
#include "cli/token_ids.hpp"
#include "core/unit_text.hpp"
#include "engine/runtime/npy.hpp"

namespace rigcast::cli {
namespace {

constexpr std::size_t kAtOnce = 32;  // tokens whose logits are in memory together

Result<std::vector<std::int32_t>> read_ids(const std::string& path, std::int64_t vocabulary) {
  std::ifstream in(path);
  if (!in) return bad_input("--tokens: cannot be read", {}, SourceRef{path});
  return read_token_ids(in, path, vocabulary);
}

}  // namespace

int write_logits(const Scenario& s, const ExecuteOptions& execute, const LogitsOptions& options) {
  if (options.logits_file.empty())
    return fail(bad_input("--tokens: where should the logits go?", "--logits out.npy"));
  const auto ids = read_ids(options.tokens_file, s.model.vocabulary);
  if (!ids) return fail(ids.error());
  if (TokenCount(ids->size()) > s.workload.context)
    return fail(
        bad_input(fmt::format("--tokens: {} ids exceed the context of {}",
                              text_count(TokenCount(ids->size())), text_count(s.workload.context)),
                  fmt::format("--context {}", ids->size())));
  auto executor = make_executor(s, execute);
  if (!executor) return fail(executor.error());
  auto file =
      engine::NpyWriter::create(options.logits_file, ids->size(), std::size_t(s.model.vocabulary));
  if (!file) return fail(file.error());
  const OnInterrupt on_interrupt;
  for (std::size_t at = 0; at < ids->size(); at += kAtOnce) {
    if (interrupted())
      return fail({ErrorKind::kMachine, "interrupted before all logits were written", {}, {}});
    const std::size_t count = std::min(kAtOnce, ids->size() - at);
    const auto logits =
        (*executor)->forward(std::span(*ids).subspan(at, count), engine::Logits::kAll);
    if (auto error = file->write(logits)) return fail(*error);
  }
  if (auto error = file->finish()) return fail(*error);
  return kDone;
}

}  // namespace rigcast::cli
