#include "core/base/units.hpp"

using namespace rigcast;

double gigabytes(Bytes b) { return b / 1_GB; }

#ifdef RIGCAST_MUST_NOT_BUILD
const double size = gigabytes(24e9);
#else
const double size = gigabytes(Bytes{24e9});
#endif
