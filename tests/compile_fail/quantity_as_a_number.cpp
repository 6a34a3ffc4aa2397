#include "core/base/units.hpp"

using namespace rigcast;

#ifdef RIGCAST_MUST_NOT_BUILD
const double size = 24_GiB;
#else
const double size = (24_GiB).value;
#endif
