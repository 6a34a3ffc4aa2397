#pragma once
// The table of a request's tokens, from all kernels that were recorded of it.

#include <span>
#include <string>

#include "bench/kernel_table/kernel_run.hpp"
#include "bench/kernel_table/rows.hpp"
#include "core/model/kv_bytes.hpp"
#include "engine/model/model.hpp"

namespace rigcast::bench {

struct TokenRows {
  Rows rows;
  int tokens = 0;       // in them; 0: none was recorded from its first kernel on
  std::string unknown;  // why rows have no bytes; empty: they have them
};

/// `runs`: in the order of their ends. A token's kernels end with an argmax; those before the first
/// argmax and behind the last are left out. `cached`: tokens in the cache behind the last token.
TokenRows token_rows(const engine::Model& model, const KvTypes& kv, std::span<const KernelRun> runs,
                     TokenCount cached);

}  // namespace rigcast::bench
