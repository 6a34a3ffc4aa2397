#pragma once
// KV types as scenarios, flags and llama.cpp write them.

#include <string>

#include "core/kv_cache.hpp"

namespace rigcast {

/// "q8_0".
std::string kv_type_name(QuantFormat type);
/// "q8_0" where keys and values have one type, else "q8_0/q4_0".
std::string text(KvTypes types);

}  // namespace rigcast
