#pragma once
// The chat template that a verb uses.

#include <CLI/App.hpp>
#include <string>

#include "core/base/error.hpp"
#include "engine/chat/chat_format.hpp"

namespace rigcast::cli {

/// --chat-template NAME; help lists the names.
CLI::Option* add_chat_template(CLI::App& verb, std::string& name);

/// The named format; without a name the file's own. A guess is told on standard error.
Result<engine::ChatFormat> find_chat_format(const std::string& name, const engine::GgufFile& file,
                                            const engine::Tokenizer& tokenizer);

}  // namespace rigcast::cli
