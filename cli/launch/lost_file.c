/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command maps texts, tokens, weights, checkpoints and flight records into memory. If another program
 * shortens such a file, a read behind the new end raises SIGBUS. This handler then reports the file, and ends
 * the process with the exit code of a corrupt file. Any thread may be the one that reads. The handler calls
 * only functions that POSIX allows in a handler. So it formats the text by hand.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/launch/job.h"
#include "collectives/flight/flight.h"
#include "core/base/base.h"

static struct sigaction before;          /* what a SIGBUS without a mapped file does */
static struct yokei_flight_file *record; /* the record from which yoke run reads errors; NULL: none */
static atomic_flag taken = ATOMIC_FLAG_INIT;

struct text {
    char *at, *end; /* one byte before the end is kept for the terminating 0 */
};

/* Append a text. Control characters could change a terminal's state, so a ? takes their place. */
static void append_text(struct text *t, const char *what)
{
    for (; *what && t->at + 1 < t->end; what++)
        *t->at++ = (unsigned char)*what < ' ' || *what == 0x7f ? '?' : *what;
    *t->at = '\0';
}

static void put_number(struct text *t, size_t n)
{
    char digits[24], *d = digits + sizeof digits - 1;
    *d = '\0';
    do *--d = (char)('0' + n % 10);
    while (n /= 10);
    append_text(t, d);
}

/* Write the error's text. Returns its status. */
static yoke_status explain_loss(const struct yokei_lost_file *lost, char *out, size_t bytes)
{
    struct text t = { out, out + bytes };
    append_text(&t, lost->path);
    switch (lost->fate) {
    case YOKEI_LOST_SHORTER:
        append_text(&t, ": it became shorter while it was used: it had ");
        put_number(&t, lost->had);
        append_text(&t, " bytes, and now it has ");
        put_number(&t, lost->has);
        append_text(&t, ". Write the file again, and change no file that is in use");
        return YOKE_EDATA;
    case YOKEI_LOST_REPLACED:
        append_text(
            &t,
            ": it became shorter while it was used, and this path does not lead to it any more. Change no "
            "file that is in use");
        return YOKE_EDATA;
    case YOKEI_LOST_UNREADABLE: break;
    }
    append_text(
        &t, ": a part of it cannot be read, because its disk or its file system failed. Look at the kernel's "
            "messages");
    return YOKE_EIO;
}

/* Report the error to yoke run if it started this process, else print it. */
static void report_loss(yoke_status status, const char *text)
{
    static const char begin[] = "yoke: error: ";
    if (record) {
        const size_t n = YOKE_MIN(strlen(text), sizeof record->error - 1);
        memcpy(record->error, text, n);
        record->error[n] = '\0';
        atomic_store(&record->status, (uint32_t)status);
        atomic_store(&record->state, YOKEI_RANK_FAILED);
        return;
    }
    ssize_t written = write(STDERR_FILENO, begin, sizeof begin - 1);
    written = write(STDERR_FILENO, text, strlen(text));
    written = write(STDERR_FILENO, "\n", 1);
    (void)written; /* there is nowhere left to report an error */
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    static char text[1024];
    struct yokei_lost_file lost;
    (void)context;
    /* a signal that a process has sent has no address */
    if (info->si_code <= 0 || !yokei_mapped_at(info->si_addr, &lost)) {
        sigaction(number, &before, NULL);
        if (info->si_code <= 0) raise(number);
        return; /* the access happens again */
    }
    while (atomic_flag_test_and_set(&taken)) pause(); /* another thread ends the process */
    const yoke_status status = explain_loss(&lost, text, sizeof text);
    report_loss(status, text);
    _exit(yoke_status_exit_code(status));
}

void cli_report_lost_files(bool is_rank)
{
    const char *folder = getenv("YOKE_RUN_DIR"), *rank = getenv("PMI_RANK");
    struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
    if (is_rank && folder && rank && getenv("YOKE_SUPERVISOR")
        && yokei_flight_create(folder, atoi(rank), false, &record))
        record = NULL;
    sigaction(SIGBUS, &action, &before);
}
