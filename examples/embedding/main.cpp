// Prints the report of a scenario: of a file that is named, or of an example.
#include <fstream>
#include <iostream>
#include <iterator>
#include <rigcast.hpp>
#include <string>

namespace {

constexpr const char* kExample = R"({
  "rig": {"gpu": ["rtx-3060-12gb"]},
  "model": {"name": "llama-3.1-8b", "quant": "Q6_K"},
  "workload": {"context": 32768}
})";

std::string text_of(const char* file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

int main(int argc, char** argv) {
  const auto answer = rigcast::forecast(argc > 1 ? text_of(argv[1]) : kExample);
  if (answer.error) {
    std::cerr << answer.error->text() << '\n';
    return 2;
  }
  std::cout << answer.json;
  return answer.fits ? 0 : 1;
}
