/* Records what a process does to the files of one folder, and can make one operation fail.
 *
 * A library for LD_PRELOAD, for tests only. Everything that changes a file directly in
 * RECORD_FOLDER (but not `-shm`, which does not outlive the machine), every sync of such a file or
 * of the folder, and every line written to RECORD_MARKS goes to RECORD_TO, in one order: each
 * operation is done and noted under one lock. Syncs are not done in earnest; whoever reads the
 * recording plays the disk. What a record looks like is said at `struct head` and read by
 * recording.rs.
 *
 * RECORD_FAIL=`ORDINAL HOW` has one write or sync fail, counted from 1: `eio` and `enospc` do
 * nothing, `short` writes half and the next write on that file finds no room. A sync fails with
 * EIO, whatever HOW says; every other descriptor that the file has open then fails its next sync,
 * too, as on Linux, where each hears once of what could not be written.
 *
 * Plain system calls, as the C library's own functions are what is replaced here. 64-bit Linux.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { CREATE = 1, WRITE, TRUNCATE, SYNC, UNLINK, RENAME, SYNC_FOLDER, MARK, FAILED };

/* `length` bytes follow: what was written, a name, `from\0to`, a mark, or what failed. */
struct head {
    uint32_t kind;
    uint32_t file; /* counts files as they are made, from 1 */
    uint64_t offset; /* of a write; the new size of a truncation; the ordinal of what failed */
    uint64_t length;
};

enum { FDS = 4096, NAMES = 64, IS_FOLDER = -1, IS_MARKS = -2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int record_to = -1;
static const char *folder, *marks;
static size_t folder_length;
/* What a descriptor is: 0 nothing of ours, a file's number, or one of the above. */
static int fds[FDS];
/* Whether its next sync tells of an error that another descriptor has met. */
static char to_tell[FDS];
/* The files that have a name, and the number of the last one made. */
static struct { char name[64]; int file; } names[NAMES];
static int files;
static uint64_t ordinal, fail_at;
static char how[8];
static int no_room; /* the file whose next write finds no room */

__attribute__((constructor)) static void begin(void)
{
    const char *to = getenv("RECORD_TO"), *fail = getenv("RECORD_FAIL");
    folder = getenv("RECORD_FOLDER");
    marks = getenv("RECORD_MARKS");
    if (!to || !folder || !marks) return;
    folder_length = strlen(folder);
    if (fail) {
        char *rest;
        fail_at = strtoull(fail, &rest, 10);
        while (*rest == ' ') rest++;
        strncpy(how, rest, sizeof how - 1);
    }
    record_to = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static void note(enum kind kind, int file, uint64_t offset, const void *data, size_t length)
{
    struct head head = { kind, (uint32_t)file, offset, length };
    struct iovec parts[2] = { { &head, sizeof head }, { (void *)data, length } };
    int kept = errno;
    long done = syscall(SYS_writev, record_to, parts, 2);
    /* A recording with a hole would prove anything. */
    if (done != (long)(sizeof head + length)) abort();
    errno = kept;
}

/* The name of a file that is recorded; null for any other. */
static const char *name_in_folder(const char *path)
{
    if (record_to < 0 || !path || strncmp(path, folder, folder_length) != 0) return 0;
    const char *name = path + folder_length;
    if (*name++ != '/' || !*name || strchr(name, '/') || strlen(name) >= sizeof names[0].name) return 0;
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, "-shm") == 0 ? 0 : name;
}

static int *slot(const char *name)
{
    for (int i = 0; i < NAMES; i++)
        if (names[i].file && strcmp(names[i].name, name) == 0) return &names[i].file;
    return 0;
}

static int add(const char *name)
{
    for (int i = 0; i < NAMES; i++)
        if (!names[i].file) {
            strcpy(names[i].name, name);
            return names[i].file = ++files;
        }
    abort();
}

static int open_any(int at, const char *path, int flags, mode_t mode)
{
    int is = 0, fd;
    const char *name = name_in_folder(path);
    if (record_to < 0) return (int)syscall(SYS_openat, at, path, flags, mode);
    pthread_mutex_lock(&lock);
    fd = (int)syscall(SYS_openat, at, path, flags, mode);
    if (fd >= 0 && name) {
        int *known = slot(name);
        if (!known && !(flags & O_CREAT)) abort(); /* it was there before the recording */
        is = known ? *known : add(name);
        if (!known) note(CREATE, is, 0, name, strlen(name));
        else if (flags & O_TRUNC) note(TRUNCATE, is, 0, 0, 0);
    } else if (fd >= 0 && strcmp(path, folder) == 0) {
        is = IS_FOLDER;
    } else if (fd >= 0 && strcmp(path, marks) == 0) {
        is = IS_MARKS;
    }
    if (is && fd >= FDS) abort();
    if (fd >= 0 && fd < FDS) {
        fds[fd] = is;
        to_tell[fd] = 0;
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

#define OPEN(name, ...)                                                       \
    int name(__VA_ARGS__ const char *path, int flags, ...)                    \
    {                                                                         \
        mode_t mode = 0;                                                      \
        if (flags & (O_CREAT | __O_TMPFILE)) {                                \
            va_list list;                                                     \
            va_start(list, flags);                                            \
            mode = va_arg(list, mode_t);                                      \
            va_end(list);                                                     \
        }                                                                     \
        return open_any(AT, path, flags, mode);                               \
    }
#define AT AT_FDCWD
OPEN(open, )
OPEN(open64, )
#undef AT
#define AT at
#define COMMA ,
OPEN(openat, int at COMMA)
OPEN(openat64, int at COMMA)
int creat(const char *path, mode_t mode) { return open_any(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

static int what(int fd) { return record_to >= 0 && fd >= 0 && fd < FDS ? __atomic_load_n(&fds[fd], __ATOMIC_RELAXED) : 0; }

/* Counts a write or sync; whether it is the one to fail. */
static int fails(void) { return ++ordinal == fail_at; }

/* One write under the lock; `at` is -1 where the descriptor's own position counts. */
static ssize_t write_one(int fd, int is, const void *data, size_t length, off_t at)
{
    off_t where = at >= 0 ? at : (off_t)syscall(SYS_lseek, fd, 0, SEEK_CUR);
    size_t wanted = length;
    if (no_room == is) {
        no_room = 0;
        errno = ENOSPC;
        return -1;
    }
    if (fails()) {
        note(FAILED, is, ordinal, how, strlen(how));
        if (strcmp(how, "short") != 0 || length < 2) {
            errno = strcmp(how, "enospc") == 0 ? ENOSPC : EIO;
            return -1;
        }
        wanted = length / 2;
        no_room = is;
    }
    ssize_t done = at >= 0 ? syscall(SYS_pwrite64, fd, data, wanted, at) : syscall(SYS_write, fd, data, wanted);
    if (done > 0) note(WRITE, is, (uint64_t)where, data, (size_t)done);
    return done;
}

static ssize_t write_any(int fd, const void *data, size_t length, off_t at)
{
    int is = what(fd);
    ssize_t done;
    if (!is || is == IS_FOLDER)
        return at >= 0 ? syscall(SYS_pwrite64, fd, data, length, at) : syscall(SYS_write, fd, data, length);
    pthread_mutex_lock(&lock);
    if (is == IS_MARKS) {
        note(MARK, 0, 0, data, length);
        done = (ssize_t)length;
    } else {
        done = write_one(fd, is, data, length, at);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int fd, const void *data, size_t length) { return write_any(fd, data, length, -1); }
ssize_t pwrite(int fd, const void *data, size_t length, off_t at) { return write_any(fd, data, length, at); }
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) { return write_any(fd, data, length, at); }

/* Of a recorded file the first part only: fewer bytes than asked is a right answer. */
ssize_t writev(int fd, const struct iovec *parts, int n)
{
    if (!what(fd)) return syscall(SYS_writev, fd, parts, n);
    for (int i = 0; i < n; i++)
        if (parts[i].iov_len) return write(fd, parts[i].iov_base, parts[i].iov_len);
    return 0;
}

ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at)
{
    if (!what(fd)) return syscall(SYS_pwritev, fd, parts, n, at, 0);
    for (int i = 0; i < n; i++)
        if (parts[i].iov_len) return pwrite(fd, parts[i].iov_base, parts[i].iov_len, at);
    return 0;
}
ssize_t pwritev64(int fd, const struct iovec *parts, int n, off64_t at) { return pwritev(fd, parts, n, at); }

static int truncate_any(int fd, off_t size)
{
    int is = what(fd);
    if (is <= 0) return (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&lock);
    int failed = (int)syscall(SYS_ftruncate, fd, size);
    if (!failed) note(TRUNCATE, is, (uint64_t)size, 0, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}
int ftruncate(int fd, off_t size) { return truncate_any(fd, size); }
int ftruncate64(int fd, off64_t size) { return truncate_any(fd, size); }

/* Room ahead is not recorded, so it is not given either: writers do without. */
int fallocate(int fd, int mode, off_t at, off_t length)
{
    if (what(fd) <= 0) return (int)syscall(SYS_fallocate, fd, mode, at, length);
    errno = EOPNOTSUPP;
    return -1;
}
int fallocate64(int fd, int mode, off64_t at, off64_t length) { return fallocate(fd, mode, at, length); }

static int sync_any(int fd, int call)
{
    int is = what(fd), failed = 0;
    if (!is) return (int)syscall(call, fd);
    if (is == IS_MARKS) return 0;
    pthread_mutex_lock(&lock);
    if (fails()) {
        note(FAILED, is > 0 ? is : 0, ordinal, "sync", 4);
        for (int other = 0; other < FDS; other++)
            if (fds[other] == is) to_tell[other] = other != fd;
        errno = EIO;
        failed = -1;
    } else {
        if (is == IS_FOLDER) note(SYNC_FOLDER, 0, 0, 0, 0);
        else note(SYNC, is, 0, 0, 0);
        if (to_tell[fd]) { /* of the earlier one; what was written since is on the disk */
            to_tell[fd] = 0;
            errno = EIO;
            failed = -1;
        }
    }
    pthread_mutex_unlock(&lock);
    return failed;
}
int fsync(int fd) { return sync_any(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_any(fd, SYS_fdatasync); }

static int unlink_any(int at, const char *path, int flags)
{
    const char *name = name_in_folder(path);
    if (!name) return (int)syscall(SYS_unlinkat, at, path, flags);
    pthread_mutex_lock(&lock);
    int failed = (int)syscall(SYS_unlinkat, at, path, flags), *file = slot(name);
    if (!failed) {
        if (file) *file = 0;
        note(UNLINK, 0, 0, name, strlen(name));
    }
    pthread_mutex_unlock(&lock);
    return failed;
}
int unlink(const char *path) { return unlink_any(AT_FDCWD, path, 0); }
int unlinkat(int at, const char *path, int flags) { return unlink_any(at, path, flags); }

int rename(const char *from, const char *to)
{
    const char *old = name_in_folder(from), *new = name_in_folder(to);
    if (!old && !new) return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (!old || !new) abort(); /* into the folder or out of it: nobody does */
    pthread_mutex_lock(&lock);
    int failed = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (!failed) {
        char both[128];
        size_t length = strlen(old);
        int *taken = slot(new), *moved = slot(old), file = moved ? *moved : 0;
        memcpy(both, old, length + 1);
        strcpy(both + length + 1, new);
        if (taken) *taken = 0;
        if (moved) *moved = 0;
        for (int i = 0; i < NAMES; i++)
            if (!names[i].file) {
                strcpy(names[i].name, new);
                names[i].file = file;
                break;
            }
        note(RENAME, 0, 0, both, length + 1 + strlen(new));
    }
    pthread_mutex_unlock(&lock);
    return failed;
}

int close(int fd)
{
    if (what(fd)) {
        pthread_mutex_lock(&lock);
        fds[fd] = 0;
        pthread_mutex_unlock(&lock);
    }
    return (int)syscall(SYS_close, fd);
}
