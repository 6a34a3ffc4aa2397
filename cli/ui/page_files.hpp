#pragma once
// The files of the page, as they are served: they are within the program, and no path leads out.

#include <string>
#include <vector>

namespace rigcast::cli {

struct PageFile {
  std::string path;  // "/app.js"
  std::string type;
  std::string text;
  std::string tag;  // changes with the text
};

std::vector<PageFile> page_files();

}  // namespace rigcast::cli
