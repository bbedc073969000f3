/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep in a child process. A driver that crashes, aborts or hangs costs one line, and not the whole
 * report.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/devices/verify.h"
#include "core/base/base.h"

enum kind { OPENED, CASE, BITS, LINE, END };

/* The head of a message that the child writes into the pipe. Its body follows. */
struct head {
    enum kind kind;
    uint32_t bytes;
};

/*
 * A line together with its texts. The texts lie in memory of the device object, which the parent process does
 * not have.
 */
struct line_body {
    struct conform_line line;
    char op[48], variant[64], device[32];
};

struct bits_body {
    struct conform_bits bits;
    char op[48], variant[64], words[128];
};

struct end_body {
    yoke_status status;
    struct conform_summary summary;
    char error[4096];
};

/* ---- in the child ---- */

static void send_all(int to, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write(to, (const char *)data + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) _exit(1); /* the parent is gone */
        done += (size_t)n;
    }
}

static void send_to_parent(int to, enum kind kind, const void *body, size_t bytes)
{
    send_all(to, &(struct head){ kind, (uint32_t)bytes }, sizeof(struct head));
    send_all(to, body, bytes);
}

static void send_line(int to, enum kind kind, const struct conform_line *line)
{
    struct line_body body = { .line = *line };
    yokei_text(body.op, sizeof body.op, "%s", line->op);
    yokei_text(body.variant, sizeof body.variant, "%s", line->variant);
    yokei_text(body.device, sizeof body.device, "%s", line->device);
    send_to_parent(to, kind, &body, sizeof body);
}

static void on_case(void *context, const struct conform_line *line)
{
    cli_progress_now("%s %s%s%s", line->op, yoke_dtype_name(line->dtype), line->variant[0] ? " " : "",
                     line->variant);
    send_line(*(int *)context, CASE, line);
}
static void on_line(void *context, const struct conform_line *line)
{
    send_line(*(int *)context, LINE, line);
}

/* The parent draws. */
static void on_share(void *context, double share)
{
    (void)context;
    cli_progress_share(share);
}

static void on_bits(void *context, const struct conform_bits *bits)
{
    struct bits_body body = { .bits = *bits };
    yokei_text(body.op, sizeof body.op, "%s", bits->op);
    yokei_text(body.variant, sizeof body.variant, "%s", bits->variant);
    yokei_text(body.words, sizeof body.words, "%s", bits->words);
    send_to_parent(*(int *)context, BITS, &body, sizeof body);
}

static yoke_status verify_in_child(const struct verify *v, int to, struct conform_summary *summary)
{
    struct conform_options options = v->options;
    yoke_device *device;
    options.before_case = on_case;
    options.share = on_share;
    if (v->bits) options.bits = on_bits;
    YOKE_TRY(yoke_device_open(v->spec, NULL, &device));
    struct verify_device opened = { .is_open = true, .info = *yoke_device_info(device) };
    opened.tuning = *yokei_tuning_source(device);
    send_to_parent(to, OPENED, &opened, sizeof opened);
    if (v->opened) v->opened(device);
    /* The reference has nothing to be compared with, but its results can be hashed. */
    const bool reference = !strcmp(opened.info.backend, "reference") && !v->bits;
    if (reference) options.gradient_device = device;
    yoke_status status = (reference ? conform_gradients(&options, on_line, &to, summary)
                                    : conform_run(device, &options, on_line, &to, summary));
    if (!status) status = yoke_device_close(device);
    return status;
}

static _Noreturn void child_process(const struct verify *v, int to, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    struct end_body end = { .summary = { .size = sizeof end.summary } };
    end.status = verify_in_child(v, to, &end.summary);
    if (end.status) yokei_text(end.error, sizeof end.error, "%s", yoke_last_error());
    send_to_parent(to, END, &end, sizeof end);
    _exit(0); /* not exit(), because a driver's destructors may hang */
}

/* ---- in the parent ---- */

/* What the parent has read from this child so far. */
struct received {
    bool any, ended;
    bool in_case;        /* a case was begun, and its line has not come yet */
    struct line_body at; /* the present case, or the last line */
    struct end_body end;
};

static void note_line(struct verify *v, const struct conform_line *line)
{
    struct conform_summary *s = &v->summary;
    int *const counts[] = { &s->n_pass, &s->n_fail, &s->n_skip, &s->n_left_out };
    *counts[line->verdict] += 1;
    s->n_cases += line->n_cases;
    if (line->verdict == CONFORM_FAIL
        && (!v->first.op || conform_order(line->op) < conform_order(v->first.op))) {
        static struct line_body kept;
        kept.line = *line;
        yokei_text(kept.op, sizeof kept.op, "%s", line->op);
        yokei_text(kept.variant, sizeof kept.variant, "%s", line->variant);
        yokei_text(kept.device, sizeof kept.device, "%s", line->device);
        v->first = kept.line;
        v->first.op = kept.op, v->first.variant = kept.variant, v->first.device = kept.device;
    }
    v->callback(v->context, line);
}

static void bind_texts(struct line_body *body)
{
    body->line.op = body->op;
    body->line.variant = body->variant;
    body->line.device = body->device;
}

static void take_message(struct verify *v, struct received *received, const struct head *head, void *body)
{
    switch (head->kind) {
    case OPENED: memcpy(&v->device, body, sizeof v->device); return;
    case END:
        memcpy(&received->end, body, sizeof received->end);
        received->ended = true;
        return;
    case BITS: {
        struct bits_body *b = body;
        b->bits.op = b->op, b->bits.variant = b->variant, b->bits.words = b->words;
        v->bits(v->context, &b->bits);
        return;
    }
    case CASE:
    case LINE:
        memcpy(&received->at, body, sizeof received->at);
        bind_texts(&received->at);
        received->any = true;
        received->in_case = head->kind == CASE;
        if (head->kind == LINE) note_line(v, &received->at.line);
        return;
    }
}

enum got { GOT_ALL, GOT_END, GOT_SILENCE };

static enum got receive(int from, void *data, size_t bytes, uint64_t deadline)
{
    for (size_t done = 0; done < bytes;) {
        const uint64_t now = yokei_now_ns();
        struct pollfd wait = { .fd = from, .events = POLLIN };
        if (now >= deadline) return GOT_SILENCE;
        const int ready = poll(&wait, 1, (int)YOKE_MIN((deadline - now) / 1000000 + 1, (uint64_t)1000000));
        if (ready <= 0) continue;
        const ssize_t n = read(from, (char *)data + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return GOT_END;
        done += (size_t)n;
    }
    return GOT_ALL;
}

/* Read until the child is silent for too long, or has ended. True: the child hung. */
static bool receive_messages(struct verify *v, int from, struct received *received)
{
    union {
        struct verify_device opened;
        struct line_body line;
        struct bits_body bits;
        struct end_body end;
    } body;
    for (;;) {
        const uint64_t deadline = yokei_now_ns() + (uint64_t)(v->hang_s * 1e9);
        struct head head;
        enum got got = receive(from, &head, sizeof head, deadline);
        if (got == GOT_ALL)
            got = head.bytes <= sizeof body ? receive(from, &body, head.bytes, deadline) : GOT_END;
        if (got != GOT_ALL) return got == GOT_SILENCE;
        take_message(v, received, &head, &body);
    }
}

/* Write how the child ended, such as "was killed by signal 11 (Segmentation fault)". */
static void end_text(int code, bool hung, double hang_s, char *text, size_t bytes)
{
    if (hung)
        yokei_text(text, bytes, "did not come back within %g s (--hang-seconds) and was killed", hang_s);
    else if (WIFSIGNALED(code))
        yokei_text(text, bytes, "was killed by signal %d (%s)", WTERMSIG(code), strsignal(WTERMSIG(code)));
    else
        yokei_text(text, bytes, "left with code %d", WEXITSTATUS(code));
}

/* Run one child from its start to its end. */
static yoke_status run_child(struct verify *v, struct received *received, char *how, size_t how_bytes)
{
    int ends[2], code = 0;
    if (pipe(ends)) return yoke_fail(YOKE_ENOMEM, "verify: no pipe: %s", strerror(errno));
    fflush(NULL);
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        close(ends[0]);
        child_process(v, ends[1], parent);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return yoke_fail(YOKE_ENOMEM, "verify: no child process: %s", strerror(errno));
    }
    const bool hung = receive_messages(v, ends[0], received);
    close(ends[0]);
    if (hung) kill(pid, SIGKILL);
    while (waitpid(pid, &code, 0) < 0 && errno == EINTR) {}
    end_text(code, hung, v->hang_s, how, how_bytes);
    return YOKE_OK;
}

/* Make a line for the case that ended its process. */
static void blame_case(struct verify *v, struct received *received, const char *how)
{
    struct conform_line *line = &received->at.line;
    line->verdict = CONFORM_FAIL;
    line->status = YOKE_EBACKEND;
    line->n_cases++;
    line->ratio = INFINITY;
    line->has_element = false;
    line->worst_case[0] = 0;
    yokei_text(line->reason, sizeof line->reason, "the process that ran case %d %s", line->case_number, how);
    note_line(v, line);
}

yoke_status verify_sweep(struct verify *v)
{
    struct line_body after;
    v->summary = (struct conform_summary){ .size = sizeof v->summary };
    for (;;) {
        struct received received = { .any = false };
        char how[160];
        YOKE_TRY(run_child(v, &received, how, sizeof how));
        if (received.ended)
            return received.end.status ? yoke_fail(received.end.status, "%s", received.end.error) : YOKE_OK;
        v->n_crashes++;
        if (!received.any)
            return yoke_fail(YOKE_EBACKEND,
                             "%s: the process that %s %s; what its driver printed stands above", v->spec,
                             v->n_crashes > 1    ? "was to go on, or to close the device,"
                             : v->device.is_open ? "had just opened the device"
                                                 : "opens the device",
                             how);
        if (received.in_case) blame_case(v, &received, how);
        after = received.at;
        bind_texts(&after);
        v->options.after = &after.line;
    }
}
