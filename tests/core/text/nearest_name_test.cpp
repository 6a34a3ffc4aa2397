#include "core/text/nearest_name.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.hpp"

using namespace rigcast;

namespace {
using Names = std::vector<std::string>;
const Names kCards = {"rtx-3060-12gb", "rtx-3090",        "rtx-4080",
                      "rtx-4090",      "rtx-4090-laptop", "h200-sxm"};
}  // namespace

TEST_CASE("Swapped digits are one slip, so the card that was meant comes first", "[nearest]") {
  CHECK(nearest_names("rtx-4900", kCards).front() == "rtx-4090");
  CHECK(nearest_names("rxt-4090", kCards).front() == "rtx-4090");
}

TEST_CASE("A part of a name finds the names that hold it", "[nearest]") {
  const Names near = nearest_names("4090", kCards);
  REQUIRE(near.size() >= 2);
  CHECK(std::ranges::find(near, "rtx-4090") != near.end());
  CHECK(std::ranges::find(near, "rtx-4090-laptop") != near.end());
}

TEST_CASE("A name near nothing has no neighbours and no question", "[nearest]") {
  CHECK(nearest_names("completely-different-thing", kCards).empty());
  CHECK(did_you_mean("completely-different-thing", kCards).empty());
  CHECK(nearest_names("rtx-4090", Names{}).empty());
}

TEST_CASE("At most as many names as asked for, nearest first", "[nearest]") {
  const Names many = {"aaaa", "aaab", "aaac", "aaad", "aabb"};
  CHECK(nearest_names("aaaa", many, 2) == Names{"aaaa", "aaab"});
  CHECK(nearest_names("aaaa", many).size() == 3);
  CHECK(nearest_names("aaaa", many, 0).empty());
}

TEST_CASE("Case and punctuation do not count as slips", "[nearest]") {
  CHECK(nearest_names("RTX 4090", kCards, 1) == Names{"rtx-4090"});
  CHECK(nearest_names("policyy", Names{"policy", "type_k"}, 1) == Names{"policy"});
}

TEST_CASE("The question names its candidates", "[nearest]") {
  CHECK(did_you_mean("tresholdd", Names{"threshold", "policy"}) == "did you mean threshold?");
  CHECK(did_you_mean("typek", Names{"type_k", "type_v"}) == "did you mean type_k, type_v?");
}

TEST_CASE("A hopelessly long name is answered as fast as a short one", "[nearest]") {
  CHECK(nearest_names(std::string(1'000'000, 'x'), kCards).empty());
}

TEST_CASE("Ids are lower case with single hyphens and dots", "[nearest]") {
  CHECK(as_id("RTX 3060 12GB") == "rtx-3060-12gb");
  CHECK(as_id("  Llama -- 3.1_8B!! ") == "llama-3.1-8b");
  CHECK(as_id("") == "");
  CHECK(as_id("---") == "");
  CHECK(as_id("caf\xc3\xa9") == "caf");
  CHECK(as_id(as_id("Qwen3 30B/A3B")) == as_id("Qwen3 30B/A3B"));
}
