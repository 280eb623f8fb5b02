/* A program that knows what it asked MPI for says so here, call by call; the tests compare that with the recording.
 * One line per call: rank, MPI name, kind, element type, elements in, elements out, global ranks, root (-1: none). */
#ifndef COMMLENS_TESTS_CAPTURE_EXPECTED_H
#define COMMLENS_TESTS_CAPTURE_EXPECTED_H

#include <stdio.h>
#include <stdlib.h>

static FILE* expected_file;
static int expected_rank;

static inline void expect_into(const char* directory, int rank) {
  char path[4096];
  snprintf(path, sizeof path, "%s/expected-%d.txt", directory, rank);
  expected_file = fopen(path, "w");
  expected_rank = rank;
  if (expected_file == NULL) {
    perror(path);
    exit(1);
  }
}

/* NOLINTNEXTLINE(readability-function-size): an argument is a column of the line */
static inline void expect(const char* name, const char* kind, const char* type, long in, long out,
                          const char* ranks, int root) {
  fprintf(expected_file, "%d %s %s %s %ld %ld %s %d\n", expected_rank, name, kind, type, in, out, ranks, root);
}

static inline void expect_end(void) { fclose(expected_file); }

#endif
