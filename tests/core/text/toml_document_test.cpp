// How a document is changed after reading: keys set on the command line, clones, defaults from
// another file; and where errors about them point.

#include <string>

#include "core/text/toml_reader.hpp"
#include "tests/catch.hpp"

using namespace rigcast;

namespace {

TomlDocument parsed(const std::string& text, const std::string& file = "test.toml") {
  auto document = TomlDocument::parse(text, file);
  REQUIRE(document);
  return *document;
}

std::string first_error(const TomlDocument& document) {
  return document.error() ? document.error()->text() : "";
}

}  // namespace

TEST_CASE("A key that is set wins over the file's", "[toml]") {
  TomlDocument document = parsed("[kv]\nthreshold = 0.5\n");
  REQUIRE_FALSE(document.set("kv.threshold", "0.9", "--set kv.threshold"));
  CHECK(document.root().table("kv").number_or("threshold", 0, 0, 1) == 0.9);
  CHECK_FALSE(document.error());
}

TEST_CASE("A value that is set has its TOML type, and is text where it is no TOML", "[toml]") {
  TomlDocument document("command line");
  for (const auto& [key, value] : {std::pair{"a", "7"},
                                   {"b", "0.5"},
                                   {"c", "true"},
                                   {"d", "['x', 'y']"},
                                   {"e", "paged"},
                                   {"f", "\"quoted\""},
                                   {"g", "24 GiB"},
                                   {"h", ""},
                                   {"i", "a = 1"},
                                   {"j", "1\nk = 2"}})
    REQUIRE_FALSE(document.set(key, value, "--set"));
  const TomlTable root = document.root();
  CHECK(root.integer("a", 0, 9) == 7);
  CHECK(root.number_or("b", 0, 0, 1) == 0.5);
  CHECK(root.flag("c", false));
  CHECK(root.texts("d").size() == 2);
  CHECK(root.text("e") == "paged");
  CHECK(root.text("f") == "quoted");
  CHECK(root.text("g") == "24 GiB");
  CHECK(root.text("h").empty());
  CHECK(root.text("i") == "a = 1");
  CHECK(root.text("j") == "1\nk = 2");
  CHECK_FALSE(root.has("k"));
  CHECK_FALSE(document.error());
}

TEST_CASE("An error about a set key names the option, not the file", "[toml]") {
  TomlDocument document = parsed("[kv]\nthreshold = 0.5\n");
  REQUIRE_FALSE(document.set("kv.threshold", "7", "--set kv.threshold"));
  document.root().table("kv").number_or("threshold", 0, 0, 1);
  CHECK(first_error(document) == "--set kv.threshold: 7 is out of range\n  expected 0 to 1");
}

TEST_CASE("An error inside a table that was set names the option and the key in it", "[toml]") {
  TomlDocument document = parsed("[rig]\nram_bandwidth = {value = '1 GB/s', kind = 'spec'}\n");
  REQUIRE_FALSE(document.set("rig.ram_bandwidth", "{value = '1 GB/s', kind = 'no'}", "--set x"));
  document.root().table("rig").find_figure<BytesPerSecond>("ram_bandwidth", 1_MBps, 9_GBps);
  CHECK(first_error(document).substr(0, 32) == "--set x: rig.ram_bandwidth.kind:");
}

TEST_CASE("A key below something that is no table cannot be set", "[toml]") {
  TomlDocument document = parsed("kv = 'vram'\n");
  const auto error = document.set("kv.policy", "paged", "--kv");
  REQUIRE(error);
  CHECK(error->text() == "--kv: \"kv\" is not a table");
  CHECK(document.set("", "1", "--set"));
}

TEST_CASE("A clone has a life of its own", "[toml]") {
  TomlDocument first = parsed("[kv]\npolicy = 'vram'\n");
  TomlDocument second = first.clone();
  REQUIRE_FALSE(second.set("kv.policy", "paged", "--kv"));
  REQUIRE_FALSE(second.set("model.name", "x", "--model"));
  CHECK(first.root().table("kv").text("policy") == "vram");
  CHECK_FALSE(first.has("model"));
  CHECK(second.root().table("kv").text("policy") == "paged");
  second.root().text("missing");
  CHECK(second.error());
  CHECK_FALSE(first.error());
}

TEST_CASE("A clone still knows where its keys stand", "[toml]") {
  const TomlDocument clone = parsed("\n[kv]\n  threshold = 'high'\n").clone();
  clone.root().table("kv").number_or("threshold", 0, 0, 1);
  CHECK(first_error(clone) == "test.toml:3:15: kv.threshold: expected a number, got text");
}

TEST_CASE("Defaults fill in what a table lacks and change nothing else", "[toml]") {
  TomlDocument document = parsed("[rig]\ncpu = 'mine'\nfigure = {kind = 'spec'}\n");
  document.merge_table_defaults("rig",
                                parsed("cpu = 'theirs'\nssd = 'theirs'\nfigure = {value = 'v'}\n"));
  const TomlTable rig = document.root().table("rig");
  CHECK(rig.text("cpu") == "mine");
  CHECK(rig.text("ssd") == "theirs");
  CHECK(rig.table("figure").text("kind") == "spec");
  CHECK(rig.table("figure").text("value") == "v");
  TomlDocument empty("command line");
  empty.merge_table_defaults("rig", parsed("ssd = 'theirs'\n"));
  CHECK(empty.root().table("rig").text("ssd") == "theirs");
}

TEST_CASE("An error about a default points into the file that it came from", "[toml]") {
  TomlDocument document = parsed("[rig]\ncpu = 'mine'\n", "scenario.toml");
  document.merge_table_defaults("rig", parsed("ssd = 7\n", "rig.toml"));
  document.root().table("rig").find_text("ssd");
  CHECK(first_error(document) == "rig.toml:1:7: rig.ssd: expected text, got a whole number");
}

TEST_CASE("A key is found by its dotted name", "[toml]") {
  const TomlDocument document = parsed("[a.b]\nc = 1\n");
  CHECK(document.has("a"));
  CHECK(document.has("a.b.c"));
  CHECK_FALSE(document.has("a.c"));
  CHECK_FALSE(document.has("a.b.c.d"));
  CHECK_FALSE(document.has(""));
}

TEST_CASE("Items of lists and tables in lists are named by their index", "[toml]") {
  const TomlDocument document = parsed("[[case]]\nid = 'a'\n[[case]]\nid = 7\n");
  for (const TomlTable& t : document.root().tables("case")) t.find_text("id");
  CHECK(first_error(document) == "test.toml:4:6: case[1].id: expected text, got a whole number");
}

// Digits were counted by logarithms, of 0.1 too: run it under sanitizers too.
TEST_CASE("Numbers of any size in a list are written as they are", "[toml]") {
  const std::string text = "a = [ 0.1, -0.001, 0.0, inf, nan, 1e300, 5e-324, 9223372036854775807 ]";
  const auto document = TomlDocument::parse(text, "t.toml");
  REQUIRE(document.ok());
  const auto again = TomlDocument::parse(document->text(), "again.toml");
  REQUIRE(again.ok());
  CHECK(again->text() == document->text());
  CHECK(document->text().find("0.1") != std::string::npos);
}

TEST_CASE("The least whole number in a list, which cannot be written, is refused", "[toml]") {
  CHECK(TomlDocument::parse("a = [ -9223372036854775807 ]", "t.toml").ok());
  CHECK_FALSE(TomlDocument::parse("a = [ -9223372036854775808 ]", "t.toml").ok());
  CHECK_FALSE(TomlDocument::parse("a = { b = -9223372036854775808 }", "t.toml").ok());
  CHECK(TomlDocument::parse("a = -9223372036854775808", "t.toml").ok());
  TomlDocument document("command line");
  REQUIRE_FALSE(document.set("a", "[ -9223372036854775808 ]", "--set"));
  CHECK(document.root().find_text("a"));
}
