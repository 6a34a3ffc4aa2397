#pragma once
// From a file on disk to weights in memory.

#include <filesystem>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/stop_flag.hpp"
#include "engine/gguf/file.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// The file's model, with all of its pages in memory and in this process, so that the first token
/// finds them. Errors: those of load_model. Throws MachineError when a page cannot be read, and
/// Interrupted.
Result<Model> load_with_pages(const GgufFile& file, const StopFlag& stop = {});

/// Has the system begin to read all vectors of the file, which load_model() takes. They lie between
/// matrices: touched one after the other, each is waited for, with megabytes around it that a GPU's
/// upload reads again. Where the system takes no such advice, nothing happens.
void ask_for_vectors(const GgufFile& file);

// Of a model that is split over several files, named by the first, these are for all of them. The
// first two throw Interrupted.
/// Drops the pages of the model, and those of no other file, from the page cache: the next load
/// comes from the disk. Pages that are mapped somewhere stay. Errors: a file cannot be opened or
/// written back.
std::optional<Error> drop_from_page_cache(const std::filesystem::path& model,
                                          const StopFlag& stop = {});

/// Reads all of the model, so that the page cache has what memory holds of it. Errors: a file
/// cannot be opened or read.
std::optional<Error> bring_into_page_cache(const std::filesystem::path& model,
                                           const StopFlag& stop = {});

}  // namespace rigcast::engine
