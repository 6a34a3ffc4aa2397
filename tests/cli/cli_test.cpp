#include "tests/catch.hpp"
