#include "cli/run_logits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <optional>
#include <span>
#include <vector>

#include "cli/interrupt.hpp"
#include "cli/output.hpp"
#include "core/unit_text.hpp"
#include "engine/runtime/npy.hpp"

namespace rigcast::cli {
namespace {

constexpr std::size_t kAtOnce = 32;  // tokens whose logits are in memory together

Result<std::vector<std::int32_t>> read_ids(const std::string& path, std::int64_t vocabulary) {
  std::ifstream in(path);
  if (!in) return bad_input("--tokens: cannot be read", {}, SourceRef{path});
  std::vector<std::int32_t> ids;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == ',' || c == '\t'; }, ' ');
    for (std::size_t at = 0; (at = line.find_first_not_of(" \r", at)) != std::string::npos;) {
      const std::size_t end = std::min(line.find_first_of(" \r", at), line.size());
      const std::string word = line.substr(at, end - at);
      const bool digits = word.size() < 10 &&
                          std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
      const std::int64_t id = digits ? std::stoll(word) : -1;
      if (id < 0 || id >= vocabulary)
        return bad_input(fmt::format("\"{}\" is no token id", word.substr(0, 40)),
                         fmt::format("ids go from 0 to {}", vocabulary - 1),
                         SourceRef{path, number, int(at) + 1});
      ids.push_back(std::int32_t(id));
      at = end;
    }
  }
  if (ids.empty()) return bad_input("--tokens: the file holds no ids", {}, SourceRef{path});
  return ids;
}

std::optional<Error> written(const Scenario& s, const ExecuteOptions& execute,
                             std::span<const std::int32_t> ids, const std::string& target) try {
  auto executor = make_executor(s, execute);
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
  if (const auto warning = past_training(s.model, TokenCount(ids->size())))
    std::cerr << "rigcast: " << *warning << '\n';
  const OnInterrupt on_interrupt;
  auto error = written(s, execute, *ids, options.logits_file);
  if (error && interrupted())
    error = Error{ErrorKind::kMachine, "interrupted before all logits were written"};
  return error ? fail(*error) : kDone;
}

}  // namespace rigcast::cli
