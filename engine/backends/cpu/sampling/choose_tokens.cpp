#include "engine/backends/cpu/sampling/choose_tokens.hpp"

#include <algorithm>

#include "engine/run/executor.hpp"

namespace rigcast::engine {
namespace {

using Id = std::int32_t;

// The likeliest tokens of a part of a row.
struct Part {
  bool has_nan = false;
  std::vector<RankedToken> tokens;
};

// A row that members look through together, in parts.
class SharedRow {
 public:
  // So many parts that all members have one. Of many candidates fewer: each part has as many as the
  // whole row would, from which the sampler chooses.
  SharedRow(const SampledLogits& row, std::size_t rows, int members)
      : row_(row),
        weighs_all_(row.sampler->needs_all_weights(row.logits.size())),
        count_(weighs_all_ ? 1 : row.sampler->candidates(row.logits.size())) {
    constexpr std::size_t kWidth = 4096, kFewer = 64;
    const std::size_t wanted = (std::size_t(members) + rows - 1) / rows,
                      width = std::max(kWidth, kFewer * count_);
    parts_.resize(std::clamp<std::size_t>(row.logits.size() / width, 1, wanted));
  }

  std::size_t parts() const { return parts_.size(); }
  // The candidates of a part: the likeliest alone, where all are weighed.
  void find_candidates(std::size_t part) {
    const std::size_t width = row_.logits.size(), first = width * part / parts_.size(),
                      last = width * (part + 1) / parts_.size();
    const auto logits = row_.logits.subspan(first, last - first);
    Part& to = parts_[part];
    to.has_nan = any_nan(logits);
    to.tokens = candidates_of(logits, count_, Id(first));
  }

  // When all parts have their candidates.
  void join() {
    has_nan_ = std::ranges::any_of(parts_, &Part::has_nan);
    for (const Part& part : parts_)
      tokens_.insert(tokens_.end(), part.tokens.begin(), part.tokens.end());
    if (weighs_all_ && !has_nan_)
      weights_.emplace(row_.logits, std::ranges::min(tokens_).logit(),
                       row_.sampler->sampling().temperature);
  }
  std::size_t weighed_parts() const { return weights_ ? weights_->parts() : 0; }
  void weigh(std::size_t part) { weights_->add(part); }

  std::optional<Id> choose() {
    if (has_nan_) return std::nullopt;
    return weights_ ? row_.sampler->next_of_all(*weights_)
                    : row_.sampler->next_of(row_.logits.size(), tokens_);
  }

 private:
  SampledLogits row_;
  bool weighs_all_;
  std::size_t count_;  // of a part's candidates
  std::vector<Part> parts_;
  bool has_nan_ = false;
  std::vector<RankedToken> tokens_;
  std::optional<VocabularyWeights> weights_;
};

// use(row, part) for each of the parts of all rows, spread over the team.
template <class Count, class Use>
void for_each_part(Worker& worker, std::vector<SharedRow>& rows, const Count& count,
                   const Use& use) {
  std::size_t all = 0;
  for (const SharedRow& row : rows) all += count(row);
  worker.parallel_for(std::int64_t(all), 1, [&](std::int64_t piece, std::int64_t) {
    auto part = std::size_t(piece);
    auto row = rows.begin();
    for (; part >= count(*row); ++row) part -= count(*row);
    use(*row, part);
  });
}

void look_through(Worker& worker, std::vector<SharedRow>& rows) {
  const auto number = std::int64_t(rows.size());
  for_each_part(
      worker, rows, [](const SharedRow& row) { return row.parts(); },
      [](SharedRow& row, std::size_t part) { row.find_candidates(part); });
  worker.parallel_for(number, 1,
                      [&](std::int64_t i, std::int64_t) { rows[std::size_t(i)].join(); });
  for_each_part(
      worker, rows, [](const SharedRow& row) { return row.weighed_parts(); },
      [](SharedRow& row, std::size_t part) { row.weigh(part); });
}

}  // namespace

std::vector<std::optional<Id>> choose_tokens(ThreadTeam& team,
                                             std::span<const SampledLogits> rows) {
  std::vector<std::optional<Id>> chosen(rows.size());
  std::vector<SharedRow> shared;
  std::vector<std::uint64_t> drawn;  // before
  for (const SampledLogits& row : rows) {
    shared.emplace_back(row, rows.size(), team.size());
    drawn.push_back(row.sampler->drawn());
  }
  try {
    team.run([&](Worker& worker) {
      look_through(worker, shared);
      worker.parallel_for_nowait(std::int64_t(rows.size()), 1, [&](std::int64_t i, std::int64_t) {
        chosen[std::size_t(i)] = shared[std::size_t(i)].choose();
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
