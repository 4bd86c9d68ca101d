/* Loaded before the C library: a wall clock that is off, and a disk that is slow.
   The file named by CHAOS_SHIM holds two signed 64-bit numbers: nanoseconds that the wall clock is
   ahead, and nanoseconds that every fsync and rename takes longer. Monotonic clocks are left alone,
   as they are by an administrator who sets the time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *control;

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("CHAOS_SHIM");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) control = found;
}

static void shift(struct timespec *at) {
    if (!control) return;
    int64_t sum = (int64_t)at->tv_sec * 1000000000 + at->tv_nsec + control[0];
    at->tv_sec = sum / 1000000000;
    at->tv_nsec = sum % 1000000000;
}

int clock_gettime(clockid_t which, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(which, at);
    if (!code && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) shift(at);
    return code;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int code = clock_gettime(CLOCK_REALTIME, &now);
    if (!code && at) { at->tv_sec = now.tv_sec; at->tv_usec = now.tv_nsec / 1000; }
    return code;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

static void wait_for_disk(void) {
    if (!control || control[1] <= 0) return;
    struct timespec pause = {control[1] / 1000000000, control[1] % 1000000000};
    nanosleep(&pause, NULL);
}

int fsync(int file) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    wait_for_disk();
    return real(file);
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
    wait_for_disk();
    return real(file);
}

int rename(const char *from, const char *to) {
    static int (*real)(const char *, const char *);
    if (!real) real = dlsym(RTLD_NEXT, "rename");
    wait_for_disk();
    return real(from, to);
}
