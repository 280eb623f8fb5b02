/* What a program may tell the recorder (docs/recording.md). Include this header, call the functions; nothing
 * has to be linked. Where nothing records, they do nothing. */
#ifndef COMMLENS_H
#define COMMLENS_H

#include <dlfcn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Finds a function of the capture library that is loaded into this process; null when none is. */
static inline void* commlens_function(const char* name) {
#ifdef RTLD_DEFAULT
  return dlsym(RTLD_DEFAULT, name);
#else
  return dlsym((void*)0, name);
#endif
}

/* The calls of this process from now on belong to step `iteration`: 0, 1, ...; -1 is initialisation. */
static inline void commlens_iteration(int iteration) {
  static void (*mark)(int);
  static int is_known;
  if (!is_known) {
    *(void**)&mark = commlens_function("commlens_mark_iteration");
    is_known = 1;
  }
  if (mark) {
    mark(iteration);
  }
}

/* ... to this part of it: "init", "forward", "recompute", "backward", "optimizer"; anything else is "other".
 */
static inline void commlens_phase(const char* phase) {
  static void (*mark)(const char*);
  static int is_known;
  if (!is_known) {
    *(void**)&mark = commlens_function("commlens_mark_phase");
    is_known = 1;
  }
  if (mark) {
    mark(phase);
  }
}

/* ... to this micro-batch of it: 0, 1, ...; -1: none. */
static inline void commlens_micro_batch(int micro_batch) {
  static void (*mark)(int);
  static int is_known;
  if (!is_known) {
    *(void**)&mark = commlens_function("commlens_mark_micro_batch");
    is_known = 1;
  }
  if (mark) {
    mark(micro_batch);
  }
}

/* This process may make no calls for so many seconds from now on, as while a checkpoint is written: `commlens
 * watch` calls the job hung only when they are over, whatever calls are made meanwhile. 0: the pause is over.
 */
static inline void commlens_expect_pause(double seconds) {
  static void (*mark)(double);
  static int is_known;
  if (!is_known) {
    *(void**)&mark = commlens_function("commlens_mark_pause");
    is_known = 1;
  }
  if (mark) {
    mark(seconds);
  }
}

#ifdef __cplusplus
}
#endif

#endif
