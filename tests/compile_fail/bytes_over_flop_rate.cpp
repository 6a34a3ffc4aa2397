#include "core/base/units.hpp"

using namespace rigcast;

#ifdef RIGCAST_MUST_NOT_BUILD
const Seconds time = 50_GB / 25_TFLOPs;
#else
const Seconds time = 50_GB / 25_GBps;
#endif
