// Ranks with bad habits, by the first argument.
// cold: 12 iterations, each on a communicator of its own before whose first call rank 0 rests 600 ms, as long
// as connections may take to be made; 20 more calls on it are quick. flood: 60 times 20,000 calls of each
// rank on itself, with 50 ms between them. pause: rank 1 says that it may pause for 20 s, and does for 9; the
// other one waits for it. slow SECONDS: four ranks meet in pairs {0,1} and {2,3} and all together; rank 2
// rests 4 ms longer, of 5.
#define _GNU_SOURCE
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commlens/capture/commlens.h"

static double values[8];

static void rest(long milliseconds) {
  const struct timespec time = {0, milliseconds * 1000000};
  nanosleep(&time, NULL);
}

static void meet(MPI_Comm comm) { MPI_Allreduce(MPI_IN_PLACE, values, 8, MPI_DOUBLE, MPI_SUM, comm); }

static void cold(int rank) {
  for (int iteration = 0; iteration < 12; ++iteration) {
    commlens_iteration(iteration);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    rest(rank == 0 ? 600 : 0);
    for (int meeting = 0; meeting < 21; ++meeting) {
      meet(comm);
    }
    MPI_Comm_free(&comm);
    rest(20);
  }
}

static void flood(void) {
  for (int burst = 0; burst < 60; ++burst) {
    for (int call = 0; call < 20000; ++call) {
      meet(MPI_COMM_SELF);
    }
    rest(50);
  }
}

static void pause_as_said(int rank) {
  meet(MPI_COMM_WORLD);
  if (rank == 1) {
    commlens_expect_pause(20);
    for (int second = 0; second < 9; ++second) {
      rest(999);
    }
    commlens_expect_pause(0);
  }
  meet(MPI_COMM_WORLD);
}

static void slow(int rank, double seconds) {
  MPI_Comm pair;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
  const double end = MPI_Wtime() + seconds;
  int goes_on = 1;
  while (goes_on) {
    rest(rank == 2 ? 5 : 1);
    meet(pair);
    goes_on = MPI_Wtime() < end;
    MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int meeting = 0; meeting < 4; ++meeting) {
      meet(MPI_COMM_WORLD);
    }
  }
}

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* const habit = count > 1 ? arguments[1] : "";
  if (strcmp(habit, "cold") == 0) {
    cold(rank);
  } else if (strcmp(habit, "flood") == 0) {
    flood();
  } else if (strcmp(habit, "pause") == 0) {
    pause_as_said(rank);
  } else if (strcmp(habit, "slow") == 0 && count > 2) {
    slow(rank, atof(arguments[2]));
  } else {
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Finalize();
  return 0;
}
