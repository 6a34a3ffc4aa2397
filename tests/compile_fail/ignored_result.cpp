// A result that nobody looks at hides its error: with warnings as errors it does not build.
#include "core/text/unit_text.hpp"

#pragma GCC diagnostic error "-Wunused-result"

bool is_size(const char* text) {
#ifdef RIGCAST_MUST_NOT_BUILD
  rigcast::parse_bytes(text);
  return true;
#else
  return rigcast::parse_bytes(text).ok();
#endif
}
