#include "core/text/csv.hpp"

namespace rigcast {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& file) : text_(text), file_(file) {
    if (text_.substr(0, kByteOrderMark.size()) == kByteOrderMark)
      text_.remove_prefix(kByteOrderMark.size());
  }

  Result<std::vector<CsvRow>> read() {
    std::vector<CsvRow> rows;
    while (at_ < text_.size() && !error_) {
      CsvRow row = read_row();
      const bool blank = row.size() == 1 && row.front().text.empty();
      if (!blank) rows.push_back(std::move(row));
    }
    if (error_) return *error_;
    return rows;
  }

 private:
  CsvRow read_row() {
    CsvRow row;
    do {
      row.push_back(read_field());
    } while (!error_ && take(','));
    if (error_) return row;
    take('\r');
    if (!take('\n') && at_ < text_.size())
      refuse("text after the closing quote", "write a quote inside a quoted field twice");
    return row;
  }

  CsvField read_field() {
    CsvField field{{}, line_, column()};
    if (take('"')) {
      read_quoted(field);
    } else {
      const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
      field.text = text_.substr(at_, end - at_);
      at_ = end;
    }
    return field;
  }

  void read_quoted(CsvField& field) {
    while (at_ < text_.size()) {
      if (take('"')) {
        if (!take('"')) return;
        field.text += '"';
      } else {
        field.text += text_[at_];
        step();
      }
    }
    error_ = bad_input("a quote that is not closed", "a quoted field ends with \"",
                       SourceRef{file_, field.line, field.column});
  }

  bool take(char wanted) {
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    step();
    return true;
  }

  void step() {
    if (text_[at_++] != '\n') return;
    ++line_;
    line_begin_ = at_;
  }

  int column() const { return int(at_ - line_begin_) + 1; }

  void refuse(std::string message, std::string hint) {
    error_ = bad_input(std::move(message), std::move(hint), SourceRef{file_, line_, column()});
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  int line_ = 1;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<CsvRow>> parse_csv(std::string_view text, const std::string& file) {
  return CsvReader(text, file).read();
}

}  // namespace rigcast
