/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank for tests/faults/launch:
 *   starter abort CODE   start MPI; rank 1 calls MPI_Abort with CODE, and the others wait for it
 *   starter leave        without MPI: make a file in UCX's folder and a System V segment, print both, and
 *                        be killed
 *   starter crash        start MPI; rank 1 crashes inside malloc, and the others wait for it
 *   starter crowd        make a communicator of host devices, and show warnings
 *   starter descriptors  without MPI: print the sockets that this process inherited, and whether one listens
 */
#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yoke/comm.h>
#include <yoke/device.h>

static int call_abort(int code)
{
    int rank;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}

/*
 * Damage a block that malloc keeps in its list of free blocks. The next malloc crashes while it holds the
 * lock of the heap.
 */
static int crash(void)
{
    int rank;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    void *volatile *volatile block = malloc(3000), *volatile wall = malloc(3000);
    if (!block || !wall) return 1;
    if (rank == 1) {
        free((void *)block);
#ifdef __SANITIZE_ADDRESS__ /* this malloc is another one */
        raise(SIGKILL);
#else
        block[1] = (void *)8;
        wall = malloc(6000);
#endif
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}

static int leave(void)
{
    const char *folder = getenv("UCX_POSIX_DIR");
    char path[4200];
    struct stat st;
    if (!folder || stat(folder, &st)) return 1;
    snprintf(path, sizeof path, "%s/ucx_shm_posix_left", folder);
    const int fd = open(path, O_CREAT | O_RDWR, 0600), segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    if (fd < 0 || segment < 0) return 1;
    printf("%s %o %d\n", folder, (unsigned)st.st_mode & 0777, segment);
    fflush(stdout);
    raise(SIGKILL);
    return 1;
}

static int descriptors(void)
{
    const char *pmi = getenv("PMI_FD");
    int sockets = 0, listening = 0, others = 0;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat st;
        int yes = 0;
        socklen_t length = sizeof yes;
        const int fd = atoi(e->d_name);
        if (fd <= 2 || fd == dirfd(dir) || fstat(fd, &st)) continue;
        sockets += S_ISSOCK(st.st_mode);
        listening += S_ISSOCK(st.st_mode) && !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &length) && yes;
        others += S_ISSOCK(st.st_mode) && (!pmi || fd != atoi(pmi));
    }
    if (dir) closedir(dir);
    printf("%d sockets, %d listen, %d but PMI's\n", sockets, listening, others);
    return 0;
}

static void show(void *unused, yoke_log_level level, const char *text)
{
    (void)unused;
    if (level <= YOKE_LOG_WARN) fprintf(stderr, "%s\n", text);
}

static int crowd(void)
{
    MPI_Comm world;
    yoke_device *device;
    yoke_comm *comm;
    yoke_log_set(show, NULL, YOKE_LOG_WARN);
    if (yoke_mpi_start(&world) || yoke_device_open("host", NULL, &device)) return 1;
    for (int i = 0; i < 2; i++)
        if (yoke_comm_create(world, device, NULL, &comm) || yoke_comm_destroy(comm)) return 1;
    return yoke_device_close(device) || yoke_mpi_stop();
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "crowd")) return crowd();
    if (argc > 2 && !strcmp(argv[1], "abort")) return call_abort(atoi(argv[2]));
    if (argc > 1 && !strcmp(argv[1], "crash")) return crash();
    if (argc > 1 && !strcmp(argv[1], "leave")) return leave();
    return argc > 1 && !strcmp(argv[1], "descriptors") ? descriptors() : 2;
}
