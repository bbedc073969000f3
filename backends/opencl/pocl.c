/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PoCL's folder of compiled programs. PoCL keeps every program there as FOLDER/XX/HASH/program.bc (LLVM
 * bitcode), and every kernel that was launched as FOLDER/XX/HASH/KERNEL/SIZES/KERNEL.so. PoCL does not check
 * these files. An emptied program.bc is a program without kernels, and a shorter one or a shorter .so ends
 * the process. A power failure leaves such files behind, because PoCL renames them into place without waiting
 * for the disk. PoCL also ends the process where a kernel cannot be written. So Yoke looks at the folder
 * first.
 *
 * The hash comes from the preprocessed source and from PoCL's own version, so only PoCL knows which files
 * belong to a program. Therefore the check reads the heads of all files in the folder. It takes a few
 * microseconds a file. It finds files that were cut off or filled with zeros, but no other change of their
 * content. A process checks a folder once, when it opens its first device. A power failure would end the
 * process, so no file is damaged later.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/opencl/opencl.h"

/* ---- what is wrong with a file: NULL, if nothing is ---- */

/*
 * Bitcode is a magic number and blocks behind each other. A block has a head of two words: its kind, and how
 * many words follow. The last blocks of a whole file hold the names.
 */
static const char *bitcode_damage(int fd, off_t bytes)
{
    enum { ENTER = 1, MODULE = 8, NAMES = 23 };
    uint32_t head[2];
    bool module = false, names = false;
    if (bytes == 0) return "is empty";
    if (pread(fd, head, 4, 0) != 4 || memcmp(head, "BC\xC0\xDE", 4) != 0) return "is no LLVM bitcode";
    off_t at = 4;
    while (at < bytes) {
        if (pread(fd, head, sizeof head, at) != (ssize_t)sizeof head || (head[0] & 3) != ENTER) break;
        const uint32_t kind = head[0] >> 2 & 0xff;
        module = module || kind == MODULE;
        names = names || kind == NAMES;
        at += (off_t)sizeof head + 4 * (off_t)head[1];
    }
    return at == bytes && module && names ? NULL : "is cut off";
}

/*
 * A shared object: the segments that are loaded, and the table of sections at the file's end, are in the
 * file.
 */
static const char *object_damage(int fd, off_t bytes)
{
    char buffer[sizeof(Elf64_Ehdr) + 16 * sizeof(Elf64_Phdr)];
    Elf64_Ehdr head;
    Elf64_Phdr segment;
    Elf64_Shdr names;
    if (bytes == 0) return "is empty";
    const ssize_t n = pread(fd, buffer, sizeof buffer, 0);
    if (n < (ssize_t)sizeof head || memcmp(buffer, ELFMAG, SELFMAG) != 0) return "is no shared object";
    memcpy(&head, buffer, sizeof head);
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof segment)
        return NULL; /* not known here */
    const uint64_t size = (uint64_t)bytes, sections = (uint64_t)head.e_shnum * head.e_shentsize;
    if (head.e_shoff > size || sections > size - head.e_shoff) return "is cut off";
    for (int i = 0; i < head.e_phnum && head.e_phoff == sizeof head; i++) {
        const size_t at = sizeof head + (size_t)i * sizeof segment;
        if (at + sizeof segment > (size_t)n) break;
        memcpy(&segment, buffer + at, sizeof segment);
        if (segment.p_type != PT_LOAD) continue;
        if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset) return "is cut off";
    }
    if (head.e_shstrndx >= head.e_shnum || head.e_shentsize != sizeof names) return NULL;
    const off_t last = (off_t)(head.e_shoff + (uint64_t)head.e_shstrndx * sizeof names);
    const bool read = pread(fd, &names, sizeof names, last) == (ssize_t)sizeof names;
    return read && names.sh_type == SHT_STRTAB ? NULL : "was not written to its end";
}

static const char *damage_of_file(int folder, const char *name)
{
    const size_t length = strlen(name);
    const bool object = length > 3 && !strcmp(name + length - 3, ".so");
    struct stat st;
    if (!object && strcmp(name, "program.bc") != 0) return NULL;
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return NULL; /* another process has removed it */
    const char *why = NULL;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode))
        why = object ? object_damage(fd, st.st_size) : bitcode_damage(fd, st.st_size);
    close(fd);
    return why;
}

/* ---- the walk ---- */

struct walk {
    const char *top; /* the folder */
    int lock;        /* its descriptor */
    int n_removed;
    char first[1024]; /* which file was removed first, and why */
    yoke_status status;
    const yoke_device *device;
};

/*
 * Remove a damaged file. Another process may have removed it since, and have put a new one there. So the file
 * is looked at again while no other process of Yoke removes files. A new file would not be damaged.
 */
static void repair(struct walk *walk, int folder, const char *path, const char *name)
{
    while (flock(walk->lock, LOCK_EX) && errno == EINTR) {}
    const char *why = damage_of_file(folder, name);
    const int error = why && unlinkat(folder, name, 0) && errno != ENOENT ? errno : 0;
    flock(walk->lock, LOCK_UN);
    if (!why) return;
    if (error) {
        walk->status = yoke_fail(
            YOKE_EIO,
            "%s: %s/%s, where PoCL keeps a compiled program, %s, and cannot be removed (%s). PoCL "
            "would end the process: remove %s, or set POCL_CACHE_DIR to another folder",
            walk->device->info.spec, path, name, why, strerror(error), walk->top);
        return;
    }
    if (!walk->n_removed++) yokei_text(walk->first, sizeof walk->first, "%s/%s %s", path, name, why);
}

/* Look at a folder and at the folders in it. `depth` counts the folders between it and the top. */
static void walk_folder(struct walk *walk, int fd, const char *path, int depth)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return;
    }
    for (struct dirent *e; !walk->status && (e = readdir(dir));) {
        char below[4096];
        /* at the top are also PoCL's temporary files */
        if (e->d_name[0] == '.' || (depth == 0 && strlen(e->d_name) != 2)) continue;
        if (e->d_type != DT_DIR && depth > 1 && damage_of_file(dirfd(dir), e->d_name))
            repair(walk, dirfd(dir), path, e->d_name);
        if ((e->d_type != DT_DIR && e->d_type != DT_UNKNOWN) || depth == 4) continue;
        const int next = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (next < 0) continue;
        yokei_text(below, sizeof below, "%s/%s", path, e->d_name);
        walk_folder(walk, next, below, depth + 1);
    }
    closedir(dir);
}

/* ---- the folder ---- */

yoke_status yokei_opencl_pocl_writable(const yoke_device *device)
{
    const char *folder = opencl_device(device)->pocl_cache;
    const int error = folder ? yokei_pocl_cannot_write(folder) : 0;
    if (!error) return YOKE_OK;
    return yoke_fail(
        YOKE_EIO,
        "%s: PoCL cannot write its folder for compiled programs, %s (%s): set POCL_CACHE_DIR to a folder "
        "that can be written and has %d MiB free",
        device->info.spec, folder, strerror(error), YOKEI_POCL_LEAST_BYTES >> 20);
}

/* The folder that this process has checked. The lock guards it, and a second device waits for the check. */
static pthread_mutex_t checked_lock = PTHREAD_MUTEX_INITIALIZER;
static char checked[4096];

static yoke_status check_folder(const yoke_device *device)
{
    struct walk walk = { .top = opencl_device(device)->pocl_cache, .device = device };
    const uint64_t start = yokei_now_ns();
    walk.lock = open(walk.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (walk.lock < 0) return YOKE_OK; /* there is none yet */
    const int fd = openat(walk.lock, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) walk_folder(&walk, fd, walk.top, 0);
    close(walk.lock);
    if (walk.n_removed)
        yoke_log(YOKE_LOG_WARN,
                 "%s: PoCL's compiled program %s%s: removed, and compiled again when it is needed",
                 device->info.spec, walk.first, walk.n_removed > 1 ? ", and others" : "");
    yoke_log(YOKE_LOG_DEBUG, "%s: looked through %s in %.2f ms", device->info.spec, walk.top,
             (double)(yokei_now_ns() - start) * 1e-6);
    return walk.status;
}

yoke_status yokei_opencl_pocl_check(const yoke_device *device)
{
    const char *on = getenv("POCL_KERNEL_CACHE"), *folder = opencl_device(device)->pocl_cache;
    yoke_status status = YOKE_OK;
    if (!folder) return YOKE_OK;
    YOKE_TRY(yokei_opencl_pocl_writable(device));
    if (on && !strcmp(on, "0")) return YOKE_OK; /* PoCL keeps nothing */
    pthread_mutex_lock(&checked_lock);
    if (strcmp(checked, folder) != 0) status = check_folder(device);
    if (!status) yokei_text(checked, sizeof checked, "%s", folder);
    pthread_mutex_unlock(&checked_lock);
    return status;
}
