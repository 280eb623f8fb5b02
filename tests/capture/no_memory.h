/* Memory that is out for the capture library alone: its malloc fails while `memory_is_out` is set. Included by one
 * source of a program, whose malloc comes before that of the C library. */
#ifndef COMMLENS_TESTS_CAPTURE_NO_MEMORY_H
#define COMMLENS_TESTS_CAPTURE_NO_MEMORY_H
#ifndef _GNU_SOURCE
#error "dladdr is an extension: define _GNU_SOURCE before the first header"
#endif
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define COMMLENS_TESTS_HAS_SANITIZER 1
#endif
#elif defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define COMMLENS_TESTS_HAS_SANITIZER 1
#endif

static volatile int memory_is_out;
#ifndef COMMLENS_TESTS_HAS_SANITIZER /* which has a malloc of its own */
/* NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): glibc's name of its malloc */
extern void* __libc_malloc(size_t bytes);

void* malloc(size_t bytes) {
  Dl_info caller;
  if (memory_is_out && dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "libcommlens-")) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_malloc(bytes);
}
#endif
#endif
