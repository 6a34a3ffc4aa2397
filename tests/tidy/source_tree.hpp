#pragma once
// The files of the repository, without built or ignored ones.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/paths.hpp"

namespace rigcast::tidy {

namespace fs = std::filesystem;

struct SourceFile {
  std::string path;  // from the root, with slashes
  std::vector<std::string> lines;

  bool ends_with(const std::string& ending) const {
    return path.size() >= ending.size() &&
           path.compare(path.size() - ending.size(), ending.size(), ending) == 0;
  }
  bool is_in(const std::string& folder) const { return path.rfind(folder + "/", 0) == 0; }
  bool is_header() const { return ends_with(".hpp") || ends_with(".cuh") || ends_with(".h"); }
  /// A translation unit of its own; .inc files are parts of one.
  bool is_unit() const { return ends_with(".cpp") || ends_with(".cu"); }
  bool is_source() const { return is_header() || is_unit() || ends_with(".inc"); }
  /// A script or style of pages, or of their tests, that is not of others.
  bool is_web() const {
    const bool is_script = ends_with(".js") || ends_with(".mjs") || ends_with(".ts");
    return (is_script || ends_with(".css")) && !is_in("web/vendor");
  }
  bool is_build_file() const { return ends_with("CMakeLists.txt") || ends_with(".cmake"); }
};

// `is_top`: it is a folder of the root. Deeper folders may be named as one that is skipped there.
inline bool is_skipped_folder(const fs::path& folder, bool is_top) {
  const std::string name = folder.filename().string();
  const bool is_hidden = name.size() > 1 && name.front() == '.';
  return is_hidden || name == "__pycache__" || name == "node_modules" ||
         (is_top && (name == "build" || name == "carry" || name == "shared"));
}

inline std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

/// Every text file below the root: those that hold no NUL.
inline std::vector<SourceFile> source_tree() {
  const fs::path root = test::source_dir();
  std::vector<SourceFile> files;
  for (fs::recursive_directory_iterator it(root), end; it != end; ++it) {
    if (it->is_directory() && is_skipped_folder(it->path(), it.depth() == 0))
      it.disable_recursion_pending();
    if (!it->is_regular_file() || it->file_size() > (4u << 20)) continue;
    if (it->path().filename() == ".git") continue;  // of a second working tree: where the first is
    const std::string text = read(it->path());
    if (text.find('\0') != std::string::npos) continue;
    SourceFile file{fs::relative(it->path(), root).generic_string(), {}};
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) file.lines.push_back(line);
    files.push_back(std::move(file));
  }
  std::ranges::sort(files, {}, &SourceFile::path);
  return files;
}

inline const std::vector<SourceFile>& files() {
  static const std::vector<SourceFile> all = source_tree();
  return all;
}

}  // namespace rigcast::tidy
