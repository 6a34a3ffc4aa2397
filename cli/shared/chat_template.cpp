#include "cli/shared/chat_template.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "cli/shared/flag_checks.hpp"

namespace rigcast::cli {

CLI::Option* add_chat_template(CLI::App& verb, std::string& name) {
  std::string names;
  for (const engine::NamedChatFormat& format : engine::chat_formats())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", format.name);
  return verb
      .add_option("--chat-template", name,
                  "how a chat is written for the model; default: as its file says; " + names)
      ->check(not_empty())
      ->type_name("NAME");
}

Result<engine::ChatFormat> find_chat_format(const std::string& name, const engine::GgufFile& file,
                                            const engine::Tokenizer& tokenizer) {
  if (!name.empty()) return engine::chat_format_named(name);
  const auto found = engine::chat_format_of(file, tokenizer);
  if (!found) return found.error();
  if (found->is_guess)
    fmt::print(stderr,
               "rigcast: the file states no chat template; by its tokens it is {}: --chat-template "
               "NAME for another\n",
               engine::name_of(found->format));
  return found->format;
}

}  // namespace rigcast::cli
