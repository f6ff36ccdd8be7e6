/* A disk that fails, for one process: put before its C library with LD_PRELOAD. What fails is told by
 * files in the folder SHIM_DIR:
 *   sync    fdatasync of segments fails with EIO; every try appends a byte to the file `syncs`
 *   stuck   fdatasync of segments hangs until the file is gone; it appends a byte to the file `hangs`
 *   hung    whatever syncs, writes, creates, renames or removes hangs until the file is gone, and appends to `hangs`
 *   slow    fdatasync of segments takes as many microseconds longer as the file says, 0.4 s if it is empty
 *   write   pwrite to segments fails with EIO
 *   full    no file of the journal can be created: ENOSPC
 *   create  no segment can be created: EIO
 *   short   pwrite writes at most 100 bytes, at least one
 *   clock   the wall clock is ahead by the number of seconds in the file, which may be negative
 * Segments are files whose names hold "segment-", bases those that hold "base-". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int asked(const char *what) {
    const char *dir = getenv("SHIM_DIR");
    char path[4096];
    if (!dir) return 0;
    snprintf(path, sizeof path, "%s/%s", dir, what);
    return syscall(SYS_access, path, F_OK) == 0;
}

static void note(const char *what) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("SHIM_DIR"), what);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file >= 0) {
        if (write(file, ".", 1) < 0) abort();
        close(file);
    }
}

/* What is in the file; `none` if there is no such file, `empty` if it is empty. */
static long number_in(const char *what, long none, long empty) {
    const char *dir = getenv("SHIM_DIR");
    char path[4096], text[32];
    if (!dir) return none;
    snprintf(path, sizeof path, "%s/%s", dir, what);
    int file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return none;
    ssize_t length = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    if (length <= 0) return empty;
    text[length] = 0;
    return atol(text);
}

static void hang_while(const char *what) {
    if (!asked(what)) return;
    note("hangs");
    while (asked(what)) usleep(1000);
}

static int is_named(int fd, const char *part) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    char *name = strrchr(path, '/');
    return name && strstr(name, part) != NULL;
}

int fdatasync(int fd) {
    if (asked("sync") && is_named(fd, "segment-")) {
        note("syncs");
        errno = EIO;
        return -1;
    }
    hang_while("hung");
    if (is_named(fd, "segment-")) {
        hang_while("stuck");
        long longer = number_in("slow", 0, 400000);
        if (longer > 0) usleep(longer);
    }
    return syscall(SYS_fdatasync, fd);
}

int fsync(int fd) {
    hang_while("hung");
    return syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
    hang_while("hung");
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path) {
    hang_while("hung");
    return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t at) {
    hang_while("hung");
    if (asked("write") && is_named(fd, "segment-")) {
        note("writes");
        errno = EIO;
        return -1;
    }
    if (asked("short") && count > 100) {
        note("shorts");
        count = 100;
    }
    return syscall(SYS_pwrite64, fd, bytes, count, at);
}
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) { return pwrite64(fd, bytes, count, at); }

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    const char *name = strrchr(path, '/');
    if (flags & O_CREAT) hang_while("hung");
    if ((flags & O_CREAT) && name && (strstr(name, "segment-") || strstr(name, "base-")) && asked("full")) {
        errno = ENOSPC;
        return -1;
    }
    if ((flags & O_CREAT) && name && strstr(name, "segment-") && asked("create")) {
        note("creates");
        errno = EIO;
        return -1;
    }
    return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (syscall(SYS_clock_gettime, clock, at) < 0) return -1;
    if (clock == CLOCK_REALTIME) at->tv_sec += number_in("clock", 0, 0);
    return 0;
}
