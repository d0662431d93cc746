#include "memory/live_bytes.hpp"

#include <malloc.h>

#include <atomic>
#include <cerrno>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEADLENS_SANITIZED
#endif
#endif
#if defined(HEADLENS_SANITIZED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    !defined(__GLIBC__)
#define HEADLENS_COUNTS 0
#else
#define HEADLENS_COUNTS 1
#endif

namespace {

std::atomic<std::size_t> live{0}, peak{0};

[[maybe_unused]] void* counted(void* p) {
  if (!p) return p;
  const std::size_t now = live += malloc_usable_size(p);
  std::size_t seen = peak;
  while (now > seen && !peak.compare_exchange_weak(seen, now)) {
  }
  return p;
}

[[maybe_unused]] void forget(void* p) {
  if (p) live -= malloc_usable_size(p);
}

}  // namespace

#if HEADLENS_COUNTS
extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t size) { return counted(__libc_malloc(size)); }
void* calloc(std::size_t count, std::size_t size) { return counted(__libc_calloc(count, size)); }
void* memalign(std::size_t alignment, std::size_t size) { return counted(__libc_memalign(alignment, size)); }
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  *out = memalign(alignment, size);
  return *out ? 0 : ENOMEM;
}
void* realloc(void* p, std::size_t size) {
  forget(p);
  return counted(__libc_realloc(p, size));
}
void free(void* p) {
  forget(p);
  __libc_free(p);
}

}  // extern "C"
#endif

namespace headlens::reference {

std::size_t live_bytes() { return live; }
std::size_t peak_bytes() { return peak; }
void reset_peak() { peak = live.load(); }
bool counts_allocations() { return HEADLENS_COUNTS; }

}  // namespace headlens::reference
