#include "engine/backends/cpu/sampling/choose_tokens.hpp"

#include <algorithm>
#include <numeric>

#include "engine/run/executor.hpp"

namespace rigcast::engine {
namespace {

using Id = std::int32_t;

// The likeliest tokens of a part of a row.
struct Part {
  bool has_nan = false;
  std::vector<Id> ids;
};

bool any_nan(std::span<const float> logits) {
  bool any = false;
  for (const float logit : logits) any |= logit != logit;  // one pass of vectors, no exit
  return any;
}

// How many parts a row has: so many that all members have one, if finding the likeliest of a part
// leaves few enough of it to look at once more.
std::size_t parts_of(const SampledLogits& row, std::size_t rows, int members) {
  constexpr std::size_t kWidth = 4096, kFewer = 4;
  const std::size_t vocabulary = row.logits.size(),
                    width = std::max(kWidth, kFewer * row.sampler->candidates(vocabulary)),
                    wanted = (std::size_t(members) + rows - 1) / rows;
  return std::clamp<std::size_t>(vocabulary / width, 1, wanted);
}

// The candidates among ids [first, last).
void find_candidates(const SampledLogits& row, std::size_t first, std::size_t last, Part& part) {
  const auto logits = row.logits.subspan(first, last - first);
  part.has_nan = any_nan(logits);
  if (row.sampler->is_greedy()) {
    part.ids.assign(1, Id(first) + argmax_token(logits));
    return;
  }
  part.ids.resize(last - first);
  std::iota(part.ids.begin(), part.ids.end(), Id(first));
  if (logits.size() == row.logits.size()) return;  // the sampler sorts what it needs
  const std::size_t count = std::min(part.ids.size(), row.sampler->candidates(row.logits.size()));
  sort_likeliest(row.logits, count, part.ids);
  part.ids.resize(count);
}

std::optional<Id> choose(const SampledLogits& row, std::span<Part> parts) {
  if (std::ranges::any_of(parts, &Part::has_nan)) return std::nullopt;
  std::vector<Id>& ids = parts.front().ids;
  for (const Part& part : parts.subspan(1)) ids.insert(ids.end(), part.ids.begin(), part.ids.end());
  return row.sampler->next_of(row.logits, ids);
}

}  // namespace

std::vector<std::optional<Id>> choose_tokens(ThreadTeam& team,
                                             std::span<const SampledLogits> rows) {
  std::vector<std::optional<Id>> chosen(rows.size());
  std::vector<std::uint64_t> drawn;  // before
  std::size_t most = 1;
  for (const SampledLogits& row : rows) {
    drawn.push_back(row.sampler->drawn());
    most = std::max(most, parts_of(row, rows.size(), team.size()));
  }
  std::vector<Part> parts(rows.size() * most);
  const auto parts_in = [&](std::size_t i) {
    return std::span(parts).subspan(i * most, parts_of(rows[i], rows.size(), team.size()));
  };
  const auto find = [&](std::int64_t piece, std::int64_t) {
    const std::size_t i = std::size_t(piece) / most, at = std::size_t(piece) % most;
    const std::size_t count = parts_in(i).size(), width = rows[i].logits.size();
    if (at < count)
      find_candidates(rows[i], width * at / count, width * (at + 1) / count, parts_in(i)[at]);
  };
  try {
    team.run([&](Worker& worker) {
      worker.parallel_for(std::int64_t(parts.size()), 1, find);
      worker.parallel_for_nowait(std::int64_t(rows.size()), 1, [&](std::int64_t i, std::int64_t) {
        const auto row = std::size_t(i);
        chosen[row] = choose(rows[row], parts_in(row));
      });
    });
  } catch (...) {
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].sampler->rewind(drawn[i]);
    throw;
  }
  return chosen;
}

Id sample(ThreadTeam& team, const SampledLogits& row, TokenCount cached, Recorder* recorder) {
  const double since = recorder ? recorder->now() : 0;
  const auto id = choose_tokens(team, {&row, 1}).front();
  if (!id) check_nan(row.logits);
  if (recorder) recorder->add(ActivityKind::kSample, -1, cached, since, 0);
  return *id;
}

}  // namespace rigcast::engine
