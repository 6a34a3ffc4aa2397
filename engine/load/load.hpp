#pragma once
// Loads weights from a file into memory.

#include <filesystem>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/stop_flag.hpp"
#include "engine/gguf/file.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// Loads the file's model, with all of its pages in memory and mapped, so that the first token
/// takes no page fault. Errors: those of load_model(). Throws MachineError when a page cannot be
/// read, and Interrupted.
Result<Model> load_with_pages(const GgufFile& file, const StopFlag& stop = {});

/// The same without its pages: whoever uses them first reads them. For models that memory cannot
/// hold, whose pages would leave before they are used. `in_order`: the system is told so, and lets
/// pages go in the order in which they came, whether they were used or not. Errors: those of
/// load_model().
Result<Model> load_mapped(const GgufFile& file, bool in_order);

/// Starts to read all vectors of the file, which load_model() will need. They lie between matrices:
/// touched one after the other, each would be waited for, with megabytes around it that a GPU's
/// upload reads again. Where the system ignores such advice, nothing happens.
void prefetch_vectors(const GgufFile& file);

// For a model that is split over several files, named by the first, these functions cover all of
// them. The first two throw Interrupted.
/// Drops the pages of the model, and of no other file, from the page cache, so that the next load
/// reads the disk. Pages that are mapped somewhere stay. Errors: a file cannot be opened or written
/// back.
std::optional<Error> drop_from_page_cache(const std::filesystem::path& model,
                                          const StopFlag& stop = {});

/// Reads the whole model, so that the page cache holds as much of it as fits. Errors: a file cannot
/// be opened or read.
std::optional<Error> bring_into_page_cache(const std::filesystem::path& model,
                                           const StopFlag& stop = {});

}  // namespace rigcast::engine
