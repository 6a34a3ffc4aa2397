#include "engine/backends/cuda/kv/kv_state.cuh"

#include <utility>

#include "core/base/error.hpp"

namespace rigcast::engine::cuda {

void KvState::split_cold() {
  const ColdBlocks* const cold = cache_.cold();
  if (!cold || !splits_cold_kv_) return;
  if (split_at_ == cache_.generation()) return;
  split_at_ = cache_.generation();
  const TokenCount blocks = kv_split_.of_host(cold->count(), cold_block());
  if (std::exchange(host_blocks_, blocks) != blocks) ++splits_changed_;
}

void KvState::observe(Seconds period) {
  if (kv_split_.record_period(period, double(host_blocks_) * cold_block())) split_at_.reset();
}

void KvState::use(ColdRing& ring) {
  RIGCAST_ASSERT(!cache_.cold());
  ring_ = &ring;
}

void KvState::prepare_token() {
  if (ColdBlocks* const cold = cache_.cold()) cold->prepare_token(host_blocks_);
}

void KvState::begin_token(CopyTracer* marks) {
  begin_sequences(marks);
  if (ColdBlocks* const cold = cache_.cold()) cold->begin_step(stream_, host_blocks_, true, marks);
}

void KvState::begin_batch(CopyTracer* marks) {
  if (ColdBlocks* const cold = cache_.cold()) cold->begin_step(stream_, 0, false, marks);
}

void KvState::begin_sequences(CopyTracer* marks) {
  if (ring_) ring_->begin_step(marks);
}

bool KvState::await(int layer) {
  if (ring_) return ring_->await(layer);
  ColdBlocks* const cold = cache_.cold();
  return cold && cold->await(stream_, layer);
}

void KvState::done(int layer) {
  if (ring_) ring_->done(layer);
  if (ColdBlocks* const cold = cache_.cold()) cold->done(stream_, layer);
}

void KvState::end_token() {
  end_sequences();
  if (ColdBlocks* const cold = cache_.cold()) cold->end_step(stream_);
}

void KvState::end_sequences() {
  if (ring_) ring_->end_step();
}

MovedBytes KvState::take_bytes() {
  MovedBytes all;
  if (ColdBlocks* const cold = cache_.cold()) {
    all.to_host += cold->take_moved_bytes();
    all.to_gpu += cold->take_prepared_bytes();
  }
  return all;
}

}  // namespace rigcast::engine::cuda
