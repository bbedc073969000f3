/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PMI-1 server that pmi.h declares. Lines have the form "cmd=WORD key=value …". Keys and values hold
 * neither spaces nor line ends.
 */
#include "cli/launch/pmi.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/base.h"

#define NAME "yoke" /* name of the only key-value store */

struct pair {
    char *key, *value; /* both in one allocation; NULL: the slot is free */
};

struct client {
    int fd; /* -1: not connected, or gone */
    char line[CLI_PMI_LINE_MAX];
    size_t used;
    size_t stored;    /* bytes of keys and values that the rank put */
    bool begun, done; /* the rank sent cmd=init, cmd=finalize */
    bool waits;       /* the rank waits in the barrier */
    bool aborts;      /* the rank sent cmd=abort with `code` */
    int code;
    bool gone;         /* the rank was connected, and its connection has ended */
    bool spawns;       /* between the lines of mcmd=spawn */
    int block, blocks; /* number of the present block of mcmd=spawn; number of all blocks */
    char fault[96];
};

struct cli_pmi {
    int n, n_waiting;
    int first_abort;
    struct pair *pairs; /* open addressing; n_slots is a power of two */
    size_t n_slots, n_pairs;
    struct client clients[];
};

/* ---- the store ---- */

static struct pair *slot_of(const struct cli_pmi *pmi, const char *key)
{
    uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */
    for (const char *c = key; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3ull;
    size_t i = hash & (pmi->n_slots - 1);
    while (pmi->pairs[i].key && strcmp(pmi->pairs[i].key, key)) i = (i + 1) & (pmi->n_slots - 1);
    return &pmi->pairs[i];
}

static bool grow(struct cli_pmi *pmi)
{
    struct pair *old = pmi->pairs;
    const size_t n_old = pmi->n_slots;
    struct pair *pairs = calloc(2 * n_old, sizeof *pairs);
    if (!pairs) return false;
    pmi->pairs = pairs;
    pmi->n_slots = 2 * n_old;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].key) *slot_of(pmi, old[i].key) = old[i];
    free(old);
    return true;
}

/* Store a pair. Returns NULL, or the reason why the pair is not stored. */
static const char *store(struct cli_pmi *pmi, const char *key, const char *value)
{
    if (2 * (pmi->n_pairs + 1) > pmi->n_slots && !grow(pmi)) return "no_memory";
    struct pair *pair = slot_of(pmi, key);
    if (pair->key) return "duplicate_key";
    const size_t key_bytes = strlen(key) + 1, value_bytes = strlen(value) + 1;
    char *text = malloc(key_bytes + value_bytes);
    if (!text) return "no_memory";
    memcpy(text, key, key_bytes);
    memcpy(text + key_bytes, value, value_bytes);
    *pair = (struct pair){ .key = text, .value = text + key_bytes };
    pmi->n_pairs++;
    return NULL;
}

/* ---- connections ---- */

static void hang_up(struct client *client)
{
    if (client->fd >= 0) close(client->fd);
    client->fd = -1;
    client->gone = true;
}

/* The rank sent something that is not PMI-1. Keep its beginning for the message, and close the connection. */
static void refuse_client(struct client *client, const char *line, size_t bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < bytes && used + 1 < sizeof client->fault; i++)
        client->fault[used++] = isprint((unsigned char)line[i]) ? line[i] : '?';
    client->fault[used] = '\0';
    if (!used) yokei_text(client->fault, sizeof client->fault, "an empty line");
    hang_up(client);
}

static void answer(struct client *client, const char *format, ...) YOKE_PRINTF(2, 3);
static void answer(struct client *client, const char *format, ...)
{
    char line[CLI_PMI_LINE_MAX];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (client->fd < 0 || send(client->fd, line, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) == n) return;
    /*
     * A rank waits for the reply before it sends another request, so the socket should have room. If the send
     * fails, the rank has ended or violates the protocol.
     */
    if (errno == EPIPE || errno == ECONNRESET)
        hang_up(client);
    else
        refuse_client(client, "no answer is read", 17);
}

/*
 * Find a key's value in a line of pairs "key=value". False: the key is missing, or the value is longer than
 * `bytes` - 1.
 */
static bool value_in_line(const char *line, const char *key, char *out, size_t bytes)
{
    const size_t length = strlen(key);
    for (const char *word = line; *word; word += strcspn(word, " "), word += strspn(word, " ")) {
        if (strncmp(word, key, length) || word[length] != '=') continue;
        const char *value = word + length + 1;
        const size_t n = strcspn(value, " ");
        if (n >= bytes) return false;
        memcpy(out, value, n);
        out[n] = '\0';
        return true;
    }
    return false;
}

/* A whole number; `otherwise` if the key is missing. */
static int number_in_line(const char *line, const char *key, int otherwise)
{
    char text[16], *end;
    if (!value_in_line(line, key, text, sizeof text)) return otherwise;
    errno = 0;
    const long value = strtol(text, &end, 10);
    return end == text || *end || errno || value < INT32_MIN || value > INT32_MAX ? otherwise : (int)value;
}

/* ---- commands ---- */

static void command_init(struct cli_pmi *pmi, struct client *client, const char *line)
{
    (void)pmi;
    const bool good = number_in_line(line, "pmi_version", 0) == 1 && !client->begun;
    client->begun = true;
    answer(client, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=%d\n", good ? 0 : -1);
}

static void command_maxes(struct cli_pmi *pmi, struct client *client, const char *line)
{
    (void)pmi, (void)line;
    answer(client, "cmd=maxes kvsname_max=256 keylen_max=%d vallen_max=%d\n", CLI_PMI_KEY_MAX,
           CLI_PMI_VALUE_MAX);
}

static void command_appnum(struct cli_pmi *pmi, struct client *client, const char *line)
{
    (void)pmi, (void)line;
    answer(client, "cmd=appnum appnum=0\n");
}

static void command_name(struct cli_pmi *pmi, struct client *client, const char *line)
{
    (void)pmi, (void)line;
    answer(client, "cmd=my_kvsname kvsname=" NAME "\n");
}

static void command_universe(struct cli_pmi *pmi, struct client *client, const char *line)
{
    (void)line;
    answer(client, "cmd=universe_size size=%d\n", pmi->n);
}

/* Check that the line is for our store, and read its key. Returns NULL, or the reason why there is no key. */
static const char *key_of_line(const char *line, char key[CLI_PMI_KEY_MAX + 1])
{
    char name[16];
    if (!value_in_line(line, "kvsname", name, sizeof name) || strcmp(name, NAME)) return "unknown_kvs";
    return value_in_line(line, "key", key, CLI_PMI_KEY_MAX + 1) && key[0] ? NULL
                                                                          : "key_is_missing_or_too_long";
}

static void command_put(struct cli_pmi *pmi, struct client *client, const char *line)
{
    char key[CLI_PMI_KEY_MAX + 1], value[CLI_PMI_VALUE_MAX + 1];
    const char *why = key_of_line(line, key);
    if (!why && !value_in_line(line, "value", value, sizeof value)) why = "value_is_missing_or_too_long";
    const size_t bytes = why ? 0 : strlen(key) + strlen(value) + 2;
    if (!why && client->stored + bytes > CLI_PMI_RANK_BYTES) why = "no_room_left";
    if (!why && !(why = store(pmi, key, value))) client->stored += bytes;
    answer(client, "cmd=put_result rc=%d msg=%s\n", why ? -1 : 0, why ? why : "success");
}

static void command_get(struct cli_pmi *pmi, struct client *client, const char *line)
{
    char key[CLI_PMI_KEY_MAX + 1];
    const char *why = key_of_line(line, key);
    const struct pair *pair = why ? NULL : slot_of(pmi, key);
    if (!why && !pair->key) why = "key_not_found";
    if (why)
        answer(client, "cmd=get_result rc=-1 msg=%s value=unknown\n", why);
    else
        answer(client, "cmd=get_result rc=0 msg=success value=%s\n", pair->value);
}

static void command_barrier(struct cli_pmi *pmi, struct client *client, const char *line)
{
    (void)line;
    if (!client->waits) pmi->n_waiting++;
    client->waits = true;
    if (pmi->n_waiting < pmi->n) return;
    pmi->n_waiting = 0;
    for (int r = 0; r < pmi->n; r++) pmi->clients[r].waits = false;
    for (int r = 0; r < pmi->n; r++) answer(&pmi->clients[r], "cmd=barrier_out\n");
}

static void command_finalize(struct cli_pmi *pmi, struct client *client, const char *line)
{
    (void)pmi, (void)line;
    client->done = true;
    answer(client, "cmd=finalize_ack\n");
}

/* There is no reply. The rank waits until it is ended. */
static void command_abort(struct cli_pmi *pmi, struct client *client, const char *line)
{
    if (client->aborts) return;
    client->aborts = true;
    client->code = number_in_line(line, "exitcode", 1);
    if (pmi->first_abort < 0) pmi->first_abort = (int)(client - pmi->clients);
}

/*
 * Published names serve jobs that connect to other jobs. The transports of one host cannot do that. So MPI
 * reports an error, and the job continues.
 */
static void command_publish(struct cli_pmi *pmi, struct client *client, const char *line)
{
    char command[32];
    (void)pmi;
    value_in_line(line, "cmd", command, sizeof command);
    command[strcspn(command, "_")] = '\0';
    answer(client, "cmd=%s_result rc=-1 msg=not_without_hydra info=not_without_hydra\n", command);
}

static const struct command {
    const char *name;
    void (*run)(struct cli_pmi *pmi, struct client *client, const char *line);
} commands[] = {
    { "init", command_init },
    { "get_maxes", command_maxes },
    { "get_appnum", command_appnum },
    { "get_my_kvsname", command_name },
    { "get_universe_size", command_universe },
    { "put", command_put },
    { "get", command_get },
    { "barrier_in", command_barrier },
    { "finalize", command_finalize },
    { "abort", command_abort },
    { "publish_name", command_publish },
    { "unpublish_name", command_publish },
    { "lookup_name", command_publish },
};

/* A line of MPI_Comm_spawn. The server answers once, after the last block, and starts no process. */
static void spawn_line(struct client *client, const char *line)
{
    client->blocks = number_in_line(line, "totspawns", client->blocks);
    client->block = number_in_line(line, "spawnssofar", client->block);
    if (strcmp(line, "endcmd")) return;
    client->spawns = false;
    if (client->block >= client->blocks) answer(client, "cmd=spawn_result rc=-1 msg=not_without_hydra\n");
}

/* Carry out one whole line, without its line end. */
static void obey_line(struct cli_pmi *pmi, struct client *client, const char *line)
{
    char command[32];
    if (client->spawns) {
        spawn_line(client, line);
        return;
    }
    if (!strncmp(line, "mcmd=spawn", 10)) {
        client->spawns = true;
        return;
    }
    if (strncmp(line, "cmd=", 4) || !value_in_line(line, "cmd", command, sizeof command)) {
        refuse_client(client, line, strlen(line));
        return;
    }
    for (size_t i = 0; i < YOKE_COUNT(commands); i++) {
        if (strcmp(commands[i].name, command)) continue;
        commands[i].run(pmi, client, line);
        return;
    }
    refuse_client(client, line, strlen(line));
}

/* Carry out all complete lines that were received. The rest stays until its line is complete. */
static void obey_lines(struct cli_pmi *pmi, struct client *client)
{
    char *line = client->line, *end;
    while (client->fd >= 0 && (end = memchr(line, '\n', client->used - (size_t)(line - client->line)))) {
        *end = '\0';
        if (strlen(line) != (size_t)(end - line))
            refuse_client(client, line, (size_t)(end - line)); /* the line holds a zero byte */
        else
            obey_line(pmi, client, line);
        line = end + 1;
    }
    client->used -= (size_t)(line - client->line);
    memmove(client->line, line, client->used);
    if (client->fd >= 0 && client->used == sizeof client->line)
        refuse_client(client, client->line, client->used);
}

void cli_pmi_serve(struct cli_pmi *pmi, int r)
{
    struct client *client = &pmi->clients[r];
    while (client->fd >= 0) {
        const ssize_t n = recv(client->fd, client->line + client->used, sizeof client->line - client->used,
                               MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) {
            hang_up(client);
            return;
        }
        client->used += (size_t)n;
        obey_lines(pmi, client);
    }
}

/* ---- the rest ---- */

yoke_status cli_pmi_new(int n_ranks, struct cli_pmi **pmi_out)
{
    struct cli_pmi *pmi = calloc(1, sizeof *pmi + (size_t)n_ranks * sizeof pmi->clients[0]);
    char mapping[64];
    *pmi_out = NULL;
    if (!pmi) return yoke_fail(YOKE_ENOMEM, "no memory for the connections of %d ranks", n_ranks);
    pmi->n = n_ranks;
    pmi->first_abort = -1;
    pmi->n_slots = 64;
    for (int r = 0; r < n_ranks; r++) pmi->clients[r].fd = -1;
    pmi->pairs = calloc(pmi->n_slots, sizeof *pmi->pairs);
    yokei_text(mapping, sizeof mapping, "(vector,(0,1,%d))",
               n_ranks); /* from node 0 on, one node with n_ranks ranks */
    if (!pmi->pairs || store(pmi, "PMI_process_mapping", mapping)) {
        cli_pmi_free(pmi);
        return yoke_fail(YOKE_ENOMEM, "no memory for the connections of %d ranks", n_ranks);
    }
    *pmi_out = pmi;
    return YOKE_OK;
}

void cli_pmi_free(struct cli_pmi *pmi)
{
    if (!pmi) return;
    for (int r = 0; r < pmi->n; r++)
        if (pmi->clients[r].fd >= 0) close(pmi->clients[r].fd);
    for (size_t i = 0; pmi->pairs && i < pmi->n_slots; i++) free(pmi->pairs[i].key);
    free(pmi->pairs);
    free(pmi);
}

yoke_status cli_pmi_connect(struct cli_pmi *pmi, int r, int *rank_fd_out)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
        return yoke_fail(errno == EMFILE || errno == ENFILE ? YOKE_ENOMEM : YOKE_EINTERNAL,
                         "no connection for rank %d: %s", r, strerror(errno));
    pmi->clients[r].fd = fds[0];
    *rank_fd_out = fds[1];
    return YOKE_OK;
}

int cli_pmi_fd(const struct cli_pmi *pmi, int r) { return pmi->clients[r].fd; }
bool cli_pmi_in_mpi(const struct cli_pmi *pmi, int r)
{
    return pmi->clients[r].begun && !pmi->clients[r].done;
}
bool cli_pmi_waits(const struct cli_pmi *pmi, int r) { return pmi->clients[r].waits; }
bool cli_pmi_deserted(const struct cli_pmi *pmi, int r)
{
    return pmi->clients[r].gone && !pmi->clients[r].waits && pmi->n_waiting;
}
const char *cli_pmi_fault(const struct cli_pmi *pmi, int r)
{
    return pmi->clients[r].fault[0] ? pmi->clients[r].fault : NULL;
}

int cli_pmi_first_abort(const struct cli_pmi *pmi) { return pmi->first_abort; }

bool cli_pmi_aborts(const struct cli_pmi *pmi, int r, int *code_out)
{
    *code_out = pmi->clients[r].code;
    return pmi->clients[r].aborts;
}
