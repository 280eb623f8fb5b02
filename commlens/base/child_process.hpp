#pragma once
#include <sys/types.h>

namespace commlens {

/// Starts a copy of this process that has none of its unwritten output; 0 in the copy. Throws SystemError.
pid_t forked_process();

/// In the copy: it ends with its parent, dies of signals as programs do, and reads and prints nothing, since
/// libraries print what we say better. Returns `descriptor` or, where that was a standard file, a duplicate.
/// Ends the copy where that cannot be.
int confined_child(int descriptor);

/// Waits for the end of a process: the status of waitpid, or -1 where somebody else took it.
int end_status_of(pid_t process);

}  // namespace commlens
