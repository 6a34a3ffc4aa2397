#include "cli/shared/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/Validators.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "core/files/output_file.hpp"

namespace rigcast::cli {

void OutputOptions::add_to(CLI::App& verb) {
  static const std::map<std::string, Format> kFormats = {
      {"text", Format::kText}, {"json", Format::kJson}, {"csv", Format::kCsv}};
  verb.add_option("--format", format, "text, json or csv")
      ->transform(CLI::CheckedTransformer(kFormats).description(""))
      ->type_name("FORMAT")
      ->group("Output");
  verb.add_option("-o,--output", file, "write to a file")->type_name("FILE")->group("Output");
}

int fail(const Error& error) {
  // The user's input may hold control characters, which a terminal must not obey.
  std::string text = error.text();
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') c = ' ';
  fmt::print(stderr, "rigcast: {}\n", text);
  switch (error.kind) {
    case ErrorKind::kBadInput: return kBadInput;
    case ErrorKind::kDoesNotFit: return kAnswerIsNo;
    case ErrorKind::kMachine: return kMachineFailed;
  }
  return kMachineFailed;
}

bool wants_colour(const OutputOptions& options) {
  const char* no_colour = std::getenv("NO_COLOR");
  return options.file.empty() && isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
}

std::optional<Error> emit(const OutputOptions& options, const std::string& text) {
  if (!options.file.empty()) return write_file(options.file, text);
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0)
    return Error{ErrorKind::kMachine, "cannot write to standard output", ""};
  return std::nullopt;
}

}  // namespace rigcast::cli
