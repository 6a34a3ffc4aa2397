#include "core/base/units.hpp"

using namespace rigcast;

#ifdef RIGCAST_MUST_NOT_BUILD
const auto moved = 25_GBps * 50_GB;
#else
const auto moved = 25_GBps * 2_s;
#endif
