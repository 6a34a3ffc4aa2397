#pragma once
// Catch2 of either major version: 2 is one header, 3 has many and keeps Approx in its namespace.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
