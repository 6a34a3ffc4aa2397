#include "core/base/units.hpp"

using namespace rigcast;

#ifdef RIGCAST_MUST_NOT_BUILD
const auto sum = 50_GB + 1_s;
#else
const auto sum = 50_GB + 1_GB;
#endif
