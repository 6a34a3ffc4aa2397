// Any text as a trace of arrivals: the first letter puts the columns of a format before it, so that
// mutations are of what stands below. What is read can be served.

#include "load/trace.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace rigcast;

std::string_view columns(unsigned format) {
  switch (format) {
    case 'o': return "arrival_s,input_tokens,output_tokens,session,prefix_of,prefix_tokens\n";
    case 'a': return "TIMESTAMP,ContextTokens,GeneratedTokens\n";
    case 'b': return "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";
    default: return "";
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input in(data, size);
  std::string text(columns(in.byte()));
  text += in.rest();
  const auto trace = parse_trace(text, "fuzz.csv");
  if (!fuzz::check(trace)) return 0;
  Seconds before = trace->requests.front().arrival;
  for (std::size_t id = 0; id < trace->requests.size(); ++id) {
    const ServedRequest& r = trace->requests[id];
    RIGCAST_ASSERT(r.arrival >= before && r.prompt >= 1 && r.output >= 1);
    RIGCAST_ASSERT(!r.continues || *r.continues < id);
    RIGCAST_ASSERT(r.shared >= 0 && r.shared <= r.prompt);
    before = r.arrival;
  }
  return 0;
}
