#include "bench/kernel_table/token_rows.hpp"

#include <utility>
#include <vector>

#include "bench/kernel_table/match.hpp"
#include "bench/kernel_table/products.hpp"

namespace rigcast::bench {
namespace {

// A token, from the kernel behind the last token's argmax to its own.
struct Token {
  std::span<const KernelRun> runs;
  TokenCount cached = 0;  // before it
};

struct Tokens {
  std::vector<Token> all;
  std::uint64_t begin = 0;  // the end of the argmax before them
};

Tokens tokens_of(std::span<const KernelRun> runs, TokenCount cached) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (runs[i].name.function == "argmax_kernel") ends.push_back(i);
  if (ends.empty()) return {};
  Tokens tokens{{}, runs[ends[0]].end};
  for (std::size_t i = 1; i < ends.size(); ++i)
    tokens.all.push_back({runs.subspan(ends[i - 1] + 1, ends[i] - ends[i - 1]),
                          cached - TokenCount(ends.size() - i)});
  return tokens;
}

// Adds the tokens to `rows`. Returns why that cannot be done for all of them; empty: it is done.
std::string add_products(Rows& rows, const engine::Model& model, const KvTypes& kv,
                         const Tokens& tokens) {
  for (const Token& token : tokens.all) {
    const auto products = products_of_token(model, kv, token.cached);
    if (!products) return products.error().message;
    const auto matched = match(token.runs, *products);
    if (!matched) return matched.error().message;
    rows.add(token.runs, *matched);
  }
  return {};
}

}  // namespace

TokenRows token_rows(const engine::Model& model, const KvTypes& kv, std::span<const KernelRun> runs,
                     TokenCount cached) {
  const Tokens tokens = tokens_of(runs, cached);
  TokenRows found{Rows(tokens.begin), int(tokens.all.size()), {}};
  found.unknown = add_products(found.rows, model, kv, tokens);
  if (found.unknown.empty()) return found;
  found.rows = Rows(tokens.begin);
  for (const Token& token : tokens.all) found.rows.add(token.runs, {});
  return found;
}

}  // namespace rigcast::bench
