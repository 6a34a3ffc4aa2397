// Traces of each format, and what is refused of them.

#include "load/trace.hpp"

#include <fstream>
#include <string>

#include "core/base/quantile.hpp"
#include "load/offered_load.hpp"
#include "tests/catch.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"

using namespace rigcast;

namespace {

const std::string kOwn = "arrival_s,input_tokens,output_tokens\n";

Trace parsed(const std::string& text) {
  auto trace = parse_trace(text, "t.csv");
  if (!trace) FAIL(trace.error().text());
  return *std::move(trace);
}

void check_refused(const std::string& text, int line, const std::string& expected) {
  const auto trace = parse_trace(text, "t.csv");
  INFO(text);
  REQUIRE_FALSE(trace);
  INFO(trace.error().text());
  CHECK(trace.error().text().find(expected) != std::string::npos);
  REQUIRE(trace.error().where);
  CHECK(trace.error().where->file == "t.csv");
  CHECK(trace.error().where->line == line);
}

}  // namespace

TEST_CASE("A trace of our own columns", "[serving][trace]") {
  const Trace trace = parsed("# a comment, with a comma\n" + kOwn + "0.5,100,7\n2,200,1\n");
  REQUIRE(trace.requests.size() == 2);
  CHECK(trace.requests[0].arrival == Seconds{0.5});
  CHECK(trace.requests[0].prompt == 100);
  CHECK(trace.requests[1].output == 1);
  CHECK_FALSE(trace.requests[1].continues);
  CHECK(parsed("output_tokens,arrival_s,input_tokens\r\n3,1e1,4\r\n").requests[0].prompt == 4);
}

TEST_CASE("A trace's sessions and prefixes are shared", "[serving][trace]") {
  const Trace sessions = parsed(
      "arrival_s,input_tokens,output_tokens,session\n0,100,10,a\n1,50,5,b\n2,150,10,a\n"
      "3,60,5,\n4,90,5,b\n5,120,3,a\n");
  const auto& r = sessions.requests;
  CHECK((r[2].continues == 0 && r[2].shared == 110));
  CHECK_FALSE(r[3].continues);
  CHECK((r[4].continues == 1 && r[4].shared == 55));
  CHECK((r[5].continues == 2 && r[5].shared == 120));  // less than what was said: it was cut
  const Trace prefixes = parsed(
      "arrival_s,input_tokens,output_tokens,prefix_of,prefix_tokens\n0,100,10,,\n1,80,5,1,64\n"
      "2,80,5,2,0\n");
  CHECK((prefixes.requests[1].continues == 0 && prefixes.requests[1].shared == 64));
  CHECK_FALSE(prefixes.requests[2].continues);
}

TEST_CASE("A trace of Azure", "[serving][trace]") {
  const Trace trace = parsed(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 23:59:58.6805900,374,44\n"
      "2023-11-17 00:00:02.9951690,396,109\n2023-11-17 00:01:00,879,55\n");
  REQUIRE(trace.requests.size() == 3);
  CHECK(trace.requests[0].arrival == 0_s);
  // Seconds since 1970 leave 2^-22 s to a double.
  CHECK(trace.requests[1].arrival.value == Approx(4.314579).margin(1e-6));
  CHECK(trace.requests[2].arrival.value == Approx(61.31941).margin(1e-6));
  CHECK(trace.requests[1].output == 109);
  CHECK(parsed("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2,3\n")
            .requests.size() == 1);
  const std::string head = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (const char* bad : {"2023-13-16 18:15:46.1", "2023-02-29 18:15:46", "2023-11-16 24:00:00",
                          "2023-11-16T18:15:46", "2023-11-16 18:15:46.x", "2023-11-16 18:15:46,5",
                          "12.5", "", "2023-11-16 18:15:46.1e9", "nan"})
    check_refused(head + bad + ",1,1\n", 2, "");
}

TEST_CASE("A trace of BurstGPT leaves out what failed", "[serving][trace]") {
  const Trace trace = parsed(
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,0,0,0,API log\n"
      "118,GPT-4,417,276,693,Conversation log\n");
  REQUIRE(trace.requests.size() == 2);
  CHECK(trace.failed == 1);
  CHECK(trace.requests[0].arrival == 0_s);
  CHECK(trace.requests[1].arrival == 113_s);
  CHECK(trace.requests[1].prompt == 417);
  CHECK(parsed("Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total "
               "tokens,Log Type\n5,a1,2.5,GPT-4,9,8,17,Conversation log\n")
            .requests[0]
            .output == 8);
}

TEST_CASE("A trace of Mooncake shares blocks of 512 tokens", "[serving][trace]") {
  const Trace trace = parsed(
      R"({"timestamp": 100, "input_length": 1200, "output_length": 50, "hash_ids": [0, 1, 2]}
{"timestamp": 100, "input_length": 1500, "output_length": 40, "hash_ids": [0, 1, 3]}

{"timestamp": 3152, "input_length": 2000, "output_length": 4, "hash_ids": [0, 1, 3, 4]}
{"timestamp": 4000, "input_length": 1600, "output_length": 4, "hash_ids": [5, 1, 3, 4]}
{"timestamp": 5000.5, "input_length": 10, "output_length": 4}
)");
  const auto& r = trace.requests;
  REQUIRE(r.size() == 5);
  CHECK(r[0].arrival == 0_s);
  CHECK(r[2].arrival.value == Approx(3.052));
  CHECK_FALSE(r[0].continues);
  CHECK((r[1].continues == 0 && r[1].shared == 1024));
  // Its third block is the second request's, which has 1,500 tokens and an answer.
  CHECK((r[2].continues == 1 && r[2].shared == 1536));
  CHECK_FALSE(r[3].continues);  // the same blocks, behind another beginning
  CHECK_FALSE(r[4].continues);
}

TEST_CASE("Broken lines of a trace are refused where they stand", "[serving][trace]") {
  check_refused("", 1, "empty trace");
  check_refused("\n \n", 1, "empty trace");
  check_refused("# nothing\n", 1, "no columns");
  check_refused("time,in,out\n1,2,3\n", 1, "no trace has these columns");
  check_refused(kOwn, 1, "without requests");
  check_refused(kOwn + "0,1,1\n1,2\n", 3, "2 fields under 3 columns");
  check_refused(kOwn + "0,1,1,1\n", 2, "4 fields");
  check_refused(kOwn + "1,1,1\n0.5,1,1\n", 3, "arrives 0.5 s before");
  for (const char* time : {"nan", "inf", "-inf", "1e13", "x", "", "1s", " 1", "0x1p3"})
    check_refused(kOwn + time + ",1,1\n", 2, "");
  for (const char* tokens :
       {"0", "-5", "nan", "1.5", "", "x", "99999999999999999999", "2e3", "1073741825"}) {
    check_refused(kOwn + "0," + tokens + ",1\n", 2, "");
    check_refused(kOwn + "0,1," + tokens + "\n", 2, "");
  }
  check_refused(kOwn + "0,1,\"1\n", 2, "quote");
  check_refused("arrival_s,input_tokens,output_tokens,model\n0,1,1,x\n", 1, "\"model\"");
  check_refused("arrival_s,input_tokens,output_tokens,arrival_s\n0,1,1,1\n", 1, "repeated");
  check_refused("arrival_s,input_tokens,output_tokens,prefix_of\n0,1,1,\n", 1, "together");
  const std::string head = "arrival_s,input_tokens,output_tokens,prefix_of,prefix_tokens\n";
  for (const char* prefix : {"1,5", "2,5", "0,5", "-1,5", "x,5", ",5", "1,"})
    check_refused(head + "0,9,9," + prefix + "\n", 2, "");
  check_refused(head + "0,9,9,,\n0,9,9,1,-1\n", 3, "-1 tokens");
}

TEST_CASE("Broken lines of Mooncake's traces are refused where they stand", "[serving][trace]") {
  const std::string good = R"({"timestamp": 5, "input_length": 6, "output_length": 7})"
                           "\n";
  check_refused(good + "[1]\n", 2, "no JSON object");
  check_refused(good + "{\"timestamp\": 5\n", 2, "no JSON object");
  check_refused(good + R"({"timestamp": 6, "input_length": 6})", 2, "output_length is missing");
  check_refused(good + R"({"timestamp": 4, "input_length": 6, "output_length": 7})", 2, "before");
  check_refused(good + R"({"timestamp": "6", "input_length": 6, "output_length": 7})", 2,
                "\"timestamp\" is not");
  for (const char* tokens : {"0", "-1", "1.5", "null", "18446744073709551615", "[]", "1e400"})
    check_refused(
        std::string(R"({"timestamp": 5, "input_length": )") + tokens + R"(, "output_length": 7})",
        1, "");
  check_refused(R"({"timestamp": 5, "input_length": 6, "output_length": 7, "hash_ids": [1.5]})", 1,
                "\"hash_ids\" is not");
  check_refused(R"({"timestamp": 5, "input_length": 6, "output_length": 7, "chat_id": 1})", 1,
                "unknown key \"chat_id\"");
}

TEST_CASE("The traces that ship are what their description says", "[serving][trace]") {
  for (const auto& [name, count, seconds, input, output] :
       {std::tuple{"conv", 19'366u, 3502.0, 1155.0, 211.0},
        {"code", 8'819u, 3436.0, 2048.0, 28.0}}) {
    const auto trace =
        read_trace(std::string(test::source_dir()) + "/loads/traces/azure-2023-" + name + ".csv");
    REQUIRE(trace);
    CHECK(trace->requests.size() == count);
    CHECK(trace->requests.back().arrival.value == Approx(seconds).margin(1));
    double prompts = 0, answers = 0;
    for (const ServedRequest& r : trace->requests) {
      prompts += double(r.prompt) / count;
      answers += double(r.output) / count;
    }
    CHECK(prompts == Approx(input).margin(1));
    CHECK(answers == Approx(output).margin(1));
  }
}

TEST_CASE("A trace is offered at its rate, or another", "[serving][trace]") {
  const std::string file = "trace-test.csv";
  std::ofstream(file) << kOwn << "0,100,10\n4,200,10\n6,300,10\n10,400,10\n";
  Load load;
  load.arrival = ArrivalProcess::kTrace;
  load.trace = file;
  load.rate_scale = 2;
  load.requests = 3;
  const auto offered = offer(load, 250);
  REQUIRE(offered);
  OfferedLoad& arrivals = **offered;
  CHECK(arrivals.take().arrival == 0_s);
  CHECK(arrivals.next() == 2_s);
  CHECK(arrivals.take().prompt == 200);
  const ServedRequest last = arrivals.take();
  CHECK((last.prompt == 240 && last.output == 10));
  CHECK(arrivals.shortened() == 1);
  CHECK_FALSE(arrivals.next());
  load.duration = 1_s;
  CHECK((*offer(load, 250))->next() == 0_s);
  load.trace = "no-such.csv";
  CHECK_FALSE(offer(load, 250));
  std::filesystem::remove(file);
}

TEST_CASE("Of a trace, requests that are asked are counted as cut", "[serving][trace]") {
  const rigcast::test::Folder folder;
  const std::string file = folder / "long.csv";
  std::ofstream(file) << kOwn << "0,300,10\n1,300,10\n2,100,10\n3,300,10\n4,100,10\n5,300,10\n";
  Load load;
  load.arrival = ArrivalProcess::kTrace;
  load.trace = file;
  const auto cut = [&](int engines) {
    const auto offered = offer(load, 250, engines);
    REQUIRE(offered);
    return (*offered)->shortened();
  };
  CHECK(cut(1) == 4);
  CHECK(cut(2) == 1);  // those at 0, 2 and 4 s
  load.duration = 2_s;
  CHECK(cut(1) == 2);
}

TEST_CASE("A trace that begins before 0 begins with its first request", "[serving][trace]") {
  const auto trace = parse_trace(kOwn + std::string("-50,100,10\n-45,100,10\n"), "trace.csv");
  REQUIRE(trace);
  CHECK(trace->requests.front().arrival == 0_s);
  CHECK(trace->requests.back().arrival == 5_s);
}
