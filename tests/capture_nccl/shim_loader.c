/* Loads the calls, and NCCL with them, where their names are not visible to others. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** arguments) {
  void* const library = dlopen(SHIM_CALLS, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int (*run)(int, char**) = 0;
  *(void**)&run = dlsym(library, "run_calls");
  return run(count, arguments);
}
