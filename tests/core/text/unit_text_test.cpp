#include "core/text/unit_text.hpp"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.hpp"

using namespace rigcast;

namespace {

using Units = std::vector<std::pair<std::string, double>>;

const Units kSizes = {{"B", 1},         {"kB", 1e3},         {"MB", 1e6},
                      {"GB", 1e9},      {"TB", 1e12},        {"KiB", 1024},
                      {"MiB", 1048576}, {"GiB", 1073741824}, {"TiB", 1099511627776}};

Units per_second(const Units& units) {
  Units out;
  for (const auto& [name, factor] : units) out.emplace_back(name + "/s", factor);
  return out;
}

// Every unit, with and without a space, alone and within blanks.
template <class Parse>
void check_units(const Units& units, Parse parse) {
  for (const auto& [unit, factor] : units) {
    for (const char* form : {"2.5 {}", "2.5{}", "  2.5   {} ", "25e-1 {}"}) {
      const std::string text = fmt::format(fmt::runtime(form), unit);
      INFO(text);
      const auto got = parse(text);
      REQUIRE(got);
      CHECK(*got == Approx(2.5 * factor).epsilon(1e-15));
    }
  }
}

template <class Parse>
auto value_of(Parse parse) {
  return [parse](const std::string& text) -> Result<double> {
    const auto got = parse(text);
    if (!got) return got.error();
    return got->value;
  };
}

template <class Parse>
void check_refused(const std::string& text, Parse parse, const std::string& example) {
  INFO(text);
  const auto got = parse(text);
  REQUIRE_FALSE(got);
  CHECK(got.error().kind == ErrorKind::kBadInput);
  CHECK(got.error().message.find("\"" + text + "\"") != std::string::npos);
  CHECK(got.error().hint.find("\"" + example + "\"") != std::string::npos);
}

}  // namespace

TEST_CASE("Every unit of every quantity is read", "[unit_text]") {
  check_units(kSizes, value_of(parse_bytes));
  check_units(per_second(kSizes), value_of(parse_bandwidth));
  check_units({{"MFLOP/s", 1e6},
               {"GFLOP/s", 1e9},
               {"TFLOP/s", 1e12},
               {"PFLOP/s", 1e15},
               {"MOP/s", 1e6},
               {"GOP/s", 1e9},
               {"TOP/s", 1e12},
               {"POP/s", 1e15}},
              value_of(parse_compute_rate));
  check_units({{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"min", 60}, {"h", 3600}},
              value_of(parse_duration));
  check_units({{"Hz", 1}, {"MHz", 1e6}, {"GHz", 1e9}, {"MT/s", 1e6}, {"GT/s", 1e9}},
              value_of(parse_frequency));
  check_units({{"W", 1}, {"kW", 1e3}}, value_of(parse_power));
  check_units({{"USD", 1}}, value_of(parse_price));
}

TEST_CASE("24 GiB is not 24 GB", "[unit_text]") {
  CHECK(parse_bytes("24 GiB")->value == 24.0 * 1073741824.0);
  CHECK(parse_bytes("24 GB")->value == 24e9);
  CHECK(*parse_bytes("24 GiB") > *parse_bytes("24 GB"));
}

TEST_CASE("A figure without a unit is refused, and the message says so", "[unit_text]") {
  check_refused("24", parse_bytes, "24 GiB");
  check_refused("64", parse_bandwidth, "64 GB/s");
  check_refused("51", parse_compute_rate, "51 TFLOP/s");
  check_refused("5", parse_duration, "5 us");
  check_refused("4.3", parse_frequency, "4.3 GHz");
  check_refused("170", parse_power, "170 W");
  check_refused("329", parse_price, "329 USD");
  CHECK(parse_bytes("24").error().message.find("unit is missing") != std::string::npos);
  CHECK(*parse_bytes("0") == 0_B);
}

TEST_CASE("A unit of another quantity, or none of ours, is refused", "[unit_text]") {
  for (const char* text : {"24 GB/s", "24 gib", "24 Gib", "24 GIB", "24 gb", "24 bytes", "24 Gbit",
                           "24 G", "24 GiB x", "24 GiBGiB", "24,5 GiB", "24 GB B", "5 s"})
    check_refused(text, parse_bytes, "24 GiB");
  for (const char* text : {"64 GB", "64 GiB", "64 Gbit/s", "64 GB/min", "64 GB / s", "64 MT/s"})
    check_refused(text, parse_bandwidth, "64 GB/s");
  for (const char* text : {"51 TFLOPS", "51 TF", "51 FLOP", "51 GB/s"})
    check_refused(text, parse_compute_rate, "51 TFLOP/s");
  for (const char* text : {"5 m", "5 hours", "5 sec", "5 S", "5 Hz"})
    check_refused(text, parse_duration, "5 us");
}

TEST_CASE("Negative, infinite and not-a-number figures are refused", "[unit_text]") {
  for (const char* number :
       {"-1", "-0.001", "-1e300", "inf", "-inf", "infinity", "nan", "-nan", "NaN", "nan(1)"}) {
    check_refused(fmt::format("{} GiB", number), parse_bytes, "24 GiB");
    check_refused(fmt::format("{} GB/s", number), parse_bandwidth, "64 GB/s");
    check_refused(fmt::format("{} us", number), parse_duration, "5 us");
    check_refused(fmt::format("{} W", number), parse_power, "170 W");
  }
}

TEST_CASE("A figure beyond what a double holds is refused, not infinite", "[unit_text]") {
  check_refused("1e400 GiB", parse_bytes, "24 GiB");
  check_refused("1e308 TiB", parse_bytes, "24 GiB");
  check_refused("1e-400 GiB", parse_bytes, "24 GiB");
  check_refused("1e305 PFLOP/s", parse_compute_rate, "51 TFLOP/s");
  CHECK(parse_bytes("1e308 B")->value == 1e308);
}

TEST_CASE("Text that holds no number is refused", "[unit_text]") {
  for (const char* text : {"", " ", "GiB", "a GiB", ".", "e5 GiB", "+5 GiB", "0x10 GiB", "--5 GiB",
                           "1.2.3 GiB", "five GiB", "\n5 GiB"})
    check_refused(text, parse_bytes, "24 GiB");
  check_refused(std::string("5\0 GiB", 7), parse_bytes, "24 GiB");
}

TEST_CASE("Exact texts parse back to the same bits", "[unit_text]") {
  for (const double v : {0.0, 1.0, 511.0, 1e3, 1048576.0, 300 * 1048576.0, 0x1p30, 12 * 0x1p30,
                         1.5 * 0x1p30, 1e9, 24e9, 123456789.0, 1e15, 0.1, 12884901889.0}) {
    const Bytes size{v};
    INFO(exact_text(size));
    CHECK(*parse_bytes(exact_text(size)) == size);
    const BytesPerSecond rate{v};
    INFO(exact_text(rate));
    CHECK(*parse_bandwidth(exact_text(rate)) == rate);
  }
  CHECK(exact_text(24_GiB) == "24 GiB");
  CHECK(exact_text(300_MiB) == "300 MiB");
  CHECK(exact_text(1000_B) == "1000 B");
  CHECK(exact_text(BytesPerSecond{360e9}) == "360 GB/s");
}

TEST_CASE("People read three significant digits and a fitting unit", "[unit_text]") {
  CHECK(text_gib(24_GiB) == "24.0 GiB");
  CHECK(text_gib(310_MiB) == "310 MiB");
  CHECK(text_gib(1023.9 * 1_MiB) == "1.00 GiB");
  CHECK(text_gib(0_B) == "0 B");
  CHECK(text_gib(-2.5 * 1_GiB) == "-2.50 GiB");
  CHECK(text_gb(Bytes{4.37e9}) == "4.37 GB");
  CHECK(text_gb(310_MB) == "310 MB");
  CHECK(text(BytesPerSecond{360e9}) == "360 GB/s");
  CHECK(text(BytesPerSecond{3.35e12}) == "3350 GB/s");
  CHECK(text(550_MBps) == "550 MB/s");
  CHECK(text(FlopsPerSecond{51.2e12}) == "51.2 TFLOP/s");
  CHECK(text(FlopsPerSecond{999.9e9}) == "1.00 TFLOP/s");
  CHECK(text(Seconds{13.8}) == "13.8 s");
  CHECK(text(Seconds{0.31}) == "310 ms");
  CHECK(text(Seconds{4.2e-6}) == "4.20 us");
  CHECK(text(Seconds{0}) == "0 s");
}

TEST_CASE("Rounding never shows a thousand of the smaller unit", "[unit_text]") {
  CHECK(text(Seconds{0.99996}) == "1.00 s");
  CHECK(text(Seconds{0.00099996}) == "1.00 ms");
  CHECK(text(BytesPerSecond{999.96e6}) == "1.00 GB/s");
  CHECK(text_gb(Bytes{999.96e6}) == "1.00 GB");
  CHECK(text(Seconds{9.9996}) == "10.0 s");
  CHECK(text(Seconds{99.96}) == "100 s");
}

TEST_CASE("Counts are grouped by thousands", "[unit_text]") {
  CHECK(text_count(0) == "0");
  CHECK(text_count(999) == "999");
  CHECK(text_count(1000) == "1,000");
  CHECK(text_count(30200) == "30,200");
  CHECK(text_count(1234567) == "1,234,567");
  CHECK(text_count(-30200) == "-30,200");
  CHECK(text_count(std::numeric_limits<std::int64_t>::max()) == "9,223,372,036,854,775,807");
}
