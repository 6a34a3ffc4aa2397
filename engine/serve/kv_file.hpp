#pragma once
// Blocks of a KV cache in a file without a name, which the system frees with the process, however
// that ends.

#include <filesystem>
#include <memory>
#include <string>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "engine/serve/block_store.hpp"

namespace rigcast::engine {

class KvFile final : public BlockStore {
 public:
  /// Makes a file of at most `size` in an existing folder, and takes its room on the disk where
  /// the file system can. Reads and writes bypass the page cache; where the file system refuses
  /// that, what was read or written is dropped from it. Errors: a folder that is none or cannot be
  /// written to (kMachine); no room for the file, or in it for one block (kDoesNotFit).
  static Result<std::unique_ptr<KvFile>> create(const std::filesystem::path& folder, Bytes size,
                                                std::size_t block_bytes);
  ~KvFile() override;
  KvFile(const KvFile&) = delete;
  KvFile& operator=(const KvFile&) = delete;

  [[nodiscard]] int blocks() const override { return blocks_; }
  [[nodiscard]] std::size_t buffer_bytes() const override { return stride_; }
  void write(int block, std::span<const std::byte> buffer) override;
  void read(int block, std::span<std::byte> buffer) override;

 private:
  KvFile(int file, std::string folder, std::size_t stride, int blocks)
      : file_(file), folder_(std::move(folder)), stride_(stride), blocks_(blocks) {}
  template <class Transfer>
  void transfer(const char* what, int block, std::size_t bytes, const Transfer& transfer) const;

  const int file_;
  const std::string folder_;
  const std::size_t stride_;  // bytes of a block in the file
  const int blocks_;
  bool is_direct_ = true;  // past the page cache
};

}  // namespace rigcast::engine
