/* Flags: a child says how far it is, its parent waits for it. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir.h>

static const uint64_t STARTED = 1, LOADED = 2, STOP = 4;

/* Ends the program unless a call did what was asked. */
static void check(weir_status status) {
    if (status != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_error_message());
        exit(1);
    }
}

int main(void) {
    weir_flags *flags;
    check(weir_flags_create(&flags));
    if (fork() == 0) {
        check(weir_flags_set(flags, STARTED, NULL));
        check(weir_flags_set(flags, LOADED, NULL));
        check(weir_flags_wait(flags, STOP, WEIR_CLEAR, WEIR_FOREVER, NULL));
        weir_flags_free(flags);
        return 0;
    }
    uint64_t state;
    check(weir_flags_wait(flags, STARTED | LOADED, WEIR_ALL, WEIR_FOREVER, NULL));
    check(weir_flags_set(flags, STOP, NULL));
    wait(NULL);
    check(weir_flags_read(flags, &state));
    printf("started and loaded, and told to stop: %d\n", (int)state);
    weir_flags_free(flags);
    return 0;
}
