// The table and the sentence about the hours of a timeline.
#include "report/pressure/hours_text.hpp"

#include "tests/catch.hpp"

using namespace rigcast;

namespace {

constexpr std::size_t kWidth = 100, kRows = 12;

HourPoint point(double hour, int sessions, TokenCount tokens, double speed) {
  HourPoint p;
  p.at = Seconds{3600 * hour};
  p.sessions = sessions;
  p.session_tokens = tokens;
  p.reclaim = "fits";
  p.tokens_per_s = p.unpressed_tokens_per_s = p.least_tokens_per_s = p.most_tokens_per_s = speed;
  return p;
}

// The rows below the table's header.
std::vector<std::string> rows_of(const std::vector<HourPoint>& points) {
  Hours h;
  h.points = points;
  std::vector<std::string> lines = hours_lines(h, kWidth, kRows), out;
  bool below = false;
  for (const std::string& line : lines) {
    if (below) out.push_back(line);
    below = below || line.find("what pays") != std::string::npos;
  }
  return out;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("A stretch in which sessions grow evenly has two rows", "[pressure]") {
  const auto rows =
      rows_of({point(0, 2, 100, 9), point(1, 2, 200, 8), point(2, 2, 300, 7), point(4, 2, 500, 6)});
  REQUIRE(rows.size() == 2);
  CHECK(has(rows[0], "0 s"));
  CHECK(has(rows[1], "4 h"));
}

TEST_CASE("The table has the moment from which sessions shrink", "[pressure]") {
  const auto rows = rows_of({point(0, 2, 100, 9), point(1, 2, 500, 6), point(2, 2, 900, 4),
                             point(2, 2, 900, 4), point(3, 2, 500, 6), point(4, 2, 100, 9)});
  REQUIRE(rows.size() == 3);
  CHECK(has(rows[1], "2 h"));
  CHECK(has(rows[1], "900"));
}

TEST_CASE("The table has both sides of a step that other programs make", "[pressure]") {
  // A stream of files ends at 1 h: the same regime, sessions and tokens, but a faster disk.
  std::vector<HourPoint> all{point(0, 2, 100, 1), point(1, 2, 100, 1), point(1, 2, 100, 2),
                             point(3, 2, 100, 2)};
  for (HourPoint& p : all) p.reclaim = "files";
  const auto rows = rows_of(all);
  REQUIRE(rows.size() == 4);
  CHECK(has(rows[1], "1.00"));
  CHECK(has(rows[2], "2.00"));
}

TEST_CASE("Of a long timeline the table has where it becomes short of memory", "[pressure]") {
  std::vector<HourPoint> all;
  for (int hour = 0; hour < 40; ++hour) {
    all.push_back(point(hour, 1 + hour % 3, 100, 9));
    if (hour == 20) all.back().reclaim = "files";
  }
  const auto rows = rows_of(all);
  REQUIRE(rows.size() == 6);  // both ends, both sides of both changes, and what is left out
  CHECK(has(rows[1], "19 h"));
  CHECK(has(rows[2], "weights read again"));
  CHECK(has(rows[3], "21 h"));
  CHECK(has(rows[5], "35 more"));
}

TEST_CASE("An hour without sessions says so, and large numbers have separators", "[pressure]") {
  const auto rows = rows_of({point(0, 0, 100, 0), point(1, 10'000, 100, 2)});
  REQUIRE(rows.size() == 2);
  CHECK(has(rows[0], "no session is open"));
  CHECK(has(rows[1], "10,000"));
}

TEST_CASE("A loss of speed is told against the same sessions with memory enough", "[pressure]") {
  Hours h;
  HourPoint one = point(0, 1, 100, 9), many = point(1, 20, 100, 0.5);
  many.unpressed_tokens_per_s = 2;
  many.reclaim = "files";
  h.points = {one, many};
  h.first_page = many.at;
  CHECK(has(pressure_text(h), "2.00 -> 0.500 tok/s"));
  CHECK_FALSE(has(pressure_text(h), "9.00"));
}

TEST_CASE("What follows an end is told to be a new beginning", "[pressure]") {
  Hours h;
  HourPoint end = point(1, 1, 100, 0);
  end.reclaim = "full";
  h.points = {point(0, 1, 100, 9), end};
  h.first_page = end.at;
  CHECK_FALSE(has(pressure_text(h), "began again"));
  h.points.push_back(point(2, 1, 100, 9));
  CHECK(has(pressure_text(h), "began again"));
}
