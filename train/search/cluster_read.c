/* SPDX-License-Identifier: Apache-2.0 */
/* Reads cluster files. Each error names the place in the file and says what to change. */
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/files/yaml.h"
#include "train/search/cluster_file.h"
#include "train/search/units.h"

#define MIB (1024.0 * 1024)
enum { MOST_COUNT = 1 << 16 };

/* What may be right. A number outside of these ranges has a wrong unit, or a wrong number of zeros. */
static const double memory_range[] = { 256 * MIB, 64 * MIB *MIB }, traffic_range[] = { 1e8, 1e15 },
                    link_range[] = { 125e3, 1e14 }, seconds_range[] = { 0, 1 }, rate_range[] = { 1e7, 1e17 },
                    work_range[] = { 0, 1e24 }, price_range[] = { 0, 1e5 };

static const char *const types[] = { "f32", "f16", "bf16", NULL }; /* in the order of yokei_speed_type */

struct reader {
    const struct yokei_yaml *yaml;
    struct yokei_cluster *cluster;
};
typedef const struct yokei_yaml_node *node;

/* ---- values ---- */

static yoke_status text_of(const struct reader *r, node n, const char *what, const char **text_out)
{
    char shown[96];
    *text_out = "";
    if (n->kind != YOKEI_YAML_TEXT || !n->text[0])
        return yokei_yaml_fail(r->yaml, n, "%s is %s; it must be one value", what,
                               yokei_yaml_show(n, shown, sizeof shown));
    *text_out = n->text;
    return YOKE_OK;
}

static yoke_status number_of(const struct reader *r, node n, const char *what, enum yokei_quantity quantity,
                             const double range[2], double *value_out)
{
    char why[256], shown[96];
    const char *text;
    YOKE_TRY(text_of(r, n, what, &text));
    if (yokei_unit_read(quantity, text, range, value_out, why, sizeof why)) return YOKE_OK;
    return yokei_yaml_fail(r->yaml, n, "%s %s %s", what, yokei_yaml_show(n, shown, sizeof shown), why);
}

/* As number_of, for a key. A key that is missing leaves the value unchanged. */
static yoke_status number_at(const struct reader *r, node mapping, const char *what, const char *key,
                             enum yokei_quantity quantity, const double range[2], double *value_out)
{
    char name[160];
    const node n = yokei_yaml_get(r->yaml, mapping, key);
    if (!n) return YOKE_OK;
    yokei_text(name, sizeof name, "%s: %s", what, key);
    return number_of(r, n, name, quantity, range, value_out);
}

static yoke_status count_at(const struct reader *r, node mapping, const char *what, const char *key,
                            int *count_out)
{
    char name[160], shown[96];
    const char *text;
    const node n = yokei_yaml_get(r->yaml, mapping, key);
    if (!n) return YOKE_OK;
    yokei_text(name, sizeof name, "%s: %s", what, key);
    YOKE_TRY(text_of(r, n, name, &text));
    const size_t digits = strspn(text, "0123456789");
    const long count = digits && digits < 8 && !text[digits] ? strtol(text, NULL, 10) : 0;
    if (count < 1 || count > MOST_COUNT)
        return yokei_yaml_fail(r->yaml, n, "%s %s is no whole number from 1 to %d", name,
                               yokei_yaml_show(n, shown, sizeof shown), MOST_COUNT);
    *count_out = (int)count;
    return YOKE_OK;
}

/* A name that the file gives to a device, a link or a host. */
static yoke_status name_of(const struct reader *r, node n, const char *what, char out[32])
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    char allowed[sizeof plain + 3];
    yokei_text(allowed, sizeof allowed, "%s._-", plain);
    const size_t length = strlen(n->key);
    if (!length || length > 31 || !strchr(plain, n->key[0]) || strspn(n->key, allowed) != length)
        return yokei_yaml_fail_key(
            r->yaml, n,
            "'%.40s' cannot be the name of %s: a name has at most 31 letters, digits, '.', "
            "'_' and '-', and begins with a letter or a digit",
            n->key, what);
    if (!strcmp(n->key, "all"))
        return yokei_yaml_fail_key(r->yaml, n, "'all' cannot be the name of %s, because it means all hosts",
                                   what);
    memcpy(out, n->key, length + 1);
    return YOKE_OK;
}

/* The index of a name that the value mentions. `stride` bytes lie between two names. */
static yoke_status index_of(const struct reader *r, node n, const char *what, const char *of_what,
                            const char *first, size_t stride, int n_names, int *index_out)
{
    const char *names[YOKEI_MOST_HOSTS + 1], *text;
    YOKE_TRY(text_of(r, n, what, &text));
    for (int i = 0; i < n_names; i++) {
        names[i] = first + (size_t)i * stride;
        if (!strcmp(names[i], text)) return *index_out = i, YOKE_OK;
    }
    names[n_names] = NULL;
    const char *nearest = strlen(text) < 64 ? yokei_nearest(text, names) : NULL;
    return yokei_yaml_fail(r->yaml, n, "%s: there is no %s '%.40s'%s%s%s", what, of_what, text,
                           nearest ? " (did you mean " : ": define it under '", nearest ? nearest : of_what,
                           nearest ? "?)" : "s:'");
}

static yoke_status link_at(const struct reader *r, node mapping, const char *what, const char *key,
                           int *link_out)
{
    const node n = yokei_yaml_get(r->yaml, mapping, key);
    const struct yokei_cluster *c = r->cluster;
    if (!n) return YOKE_OK;
    return index_of(r, n, what, "link", c->link[0].name, sizeof c->link[0], c->n_links, link_out);
}

/* A section is a mapping with at least one and at most `most` entries. */
static yoke_status section(const struct reader *r, node root, const char *key, const char *advice, int most,
                           node *out)
{
    char shown[96];
    YOKE_TRY(yokei_yaml_need(r->yaml, root, "the file", key, advice, out));
    if ((*out)->kind != YOKEI_YAML_MAPPING || !(*out)->n)
        return yokei_yaml_fail(r->yaml, *out, "'%s' is %s; %s", key,
                               (*out)->kind == YOKEI_YAML_MAPPING
                                   ? "an empty mapping"
                                   : yokei_yaml_show(*out, shown, sizeof shown),
                               advice);
    if ((*out)->n > most)
        return yokei_yaml_fail(r->yaml, *out, "'%s' has %d entries; at most %d are read", key, (*out)->n,
                               most);
    return YOKE_OK;
}

/* ---- devices ---- */

static bool is_unlimited(node n) { return n->kind == YOKEI_YAML_TEXT && !strcmp(n->text, "unlimited"); }

/* "rate: 990TFLOP/s", or rates by the work of an op: "rate: { 0FLOP: 50TFLOP/s, 1GFLOP: 600TFLOP/s }". */
static yoke_status read_rate(const struct reader *r, node n, const char *what, struct yokei_speed *s)
{
    char why[256];
    if (is_unlimited(n)) return YOKE_OK;
    if (n->kind != YOKEI_YAML_MAPPING) {
        s->n_points = 1;
        return number_of(r, n, what, YOKEI_RATE, rate_range, &s->point[0].rate);
    }
    if (n->n < 1 || n->n > YOKEI_MOST_POINTS)
        return yokei_yaml_fail(r->yaml, n, "%s has %d rates; give 1 to %d", what, n->n, YOKEI_MOST_POINTS);
    for (node p = yokei_yaml_first(r->yaml, n); p; p = yokei_yaml_next(r->yaml, p)) {
        const int i = s->n_points;
        if (!yokei_unit_read(YOKEI_WORK, p->key, work_range, &s->point[i].work, why, sizeof why))
            return yokei_yaml_fail_key(r->yaml, p, "%s: the work '%.40s' %s", what, p->key, why);
        YOKE_TRY(number_of(r, p, what, YOKEI_RATE, rate_range, &s->point[i].rate));
        if (i && s->point[i].work <= s->point[i - 1].work)
            return yokei_yaml_fail_key(
                r->yaml, p, "%s: '%s' is not more work than the entry before; sort them", what, p->key);
        if (i && s->point[i].rate < s->point[i - 1].rate)
            return yokei_yaml_fail(r->yaml, p,
                                   "%s: the rate %s is lower than that of less work; give at least the same",
                                   what, p->text);
        s->n_points++;
    }
    return YOKE_OK;
}

static yoke_status read_bandwidth(const struct reader *r, node n, const char *what, double *out)
{
    if (is_unlimited(n)) return *out = 0, YOKE_OK;
    return number_of(r, n, what, YOKEI_BANDWIDTH, traffic_range, out);
}

/*
 * The speed of a class. `n` is NULL if the class is not in the file. `own` are the device's bandwidth (below
 * 0: it has none) and latency, which hold for each class that does not have its own.
 */
static yoke_status read_class(const struct reader *r, node speeds, node n, const char *what, int class,
                              const double own[2], struct yokei_speed *s)
{
    static const char *const keys[] = { "rate", "bandwidth", "latency", NULL };
    const bool computes = class == YOKEI_CLASS_GEMM || class == YOKEI_CLASS_ATTENTION;
    char text[200];
    double bandwidth = own[0];
    s->seconds = own[1];
    if (n && n->kind == YOKEI_YAML_MAPPING) {
        YOKE_TRY(yokei_yaml_keys(r->yaml, n, what, keys));
        const node rate = yokei_yaml_get(r->yaml, n, "rate"),
                   traffic = yokei_yaml_get(r->yaml, n, "bandwidth");
        if (rate) YOKE_TRY(read_rate(r, rate, what, s));
        yokei_text(text, sizeof text, "%s: bandwidth", what);
        if (traffic) YOKE_TRY(read_bandwidth(r, traffic, text, &bandwidth));
        YOKE_TRY(number_at(r, n, what, "latency", YOKEI_SECONDS, seconds_range, &s->seconds));
        if (computes && !rate)
            return yokei_yaml_fail(r->yaml, n, "%s has no rate; add one, such as rate: 600TFLOP/s", what);
        if (class == YOKEI_CLASS_GEMM && !s->n_points)
            return yokei_yaml_fail(r->yaml, rate, "%s has no limit; give a rate, such as 600TFLOP/s", what);
    } else if (n && computes) {
        YOKE_TRY(read_rate(r, n, what, s));
        if (class == YOKEI_CLASS_GEMM && !s->n_points)
            return yokei_yaml_fail(r->yaml, n, "%s has no limit; give a rate, such as 600TFLOP/s", what);
    } else if (n)
        YOKE_TRY(read_bandwidth(r, n, what, &bandwidth));
    else if (computes)
        return yokei_yaml_fail(r->yaml, speeds, "%s has no speed; add a rate, such as %s: 300TFLOP/s", what,
                               yokei_op_class_names[class]);
    if (bandwidth < 0)
        return yokei_yaml_fail(r->yaml, n ? n : speeds,
                               "%s has no bandwidth of memory; give the device one, such as bandwidth: 3TB/s",
                               what);
    s->bytes_per_second = bandwidth;
    return YOKE_OK;
}

static yoke_status read_speeds(const struct reader *r, node speeds, const char *what, const double own[2],
                               struct yokei_device_kind *kind)
{
    char text[160];
    YOKE_TRY(yokei_yaml_keys(r->yaml, speeds, what, types));
    if (!speeds->n)
        return yokei_yaml_fail(r->yaml, speeds, "%s has no speeds; add those of a precision, such as bf16",
                               what);
    for (int type = 0; type < YOKEI_N_SPEED_TYPES; type++) {
        const node classes = yokei_yaml_get(r->yaml, speeds, types[type]);
        if (!classes) continue;
        yokei_text(text, sizeof text, "%s, %s", what, types[type]);
        YOKE_TRY(yokei_yaml_keys(r->yaml, classes, text, yokei_op_class_names));
        for (int class = 0; class < YOKEI_N_CLASSES; class ++) {
            const node n = yokei_yaml_get(r->yaml, classes, yokei_op_class_names[class]);
            yokei_text(text, sizeof text, "%s, %s of %s", what, yokei_op_class_names[class], types[type]);
            YOKE_TRY(read_class(r, classes, n, text, class, own, &kind->speed[type][class]));
        }
    }
    return YOKE_OK;
}

/* The speeds of a file of `yoke bench kernels`. A relative path begins at the cluster file's folder. */
static yoke_status read_kernels(const struct reader *r, node n, const char *what,
                                struct yokei_device_kind *kind)
{
    const char *name, *slash = strrchr(r->yaml->path, '/');
    YOKE_TRY(text_of(r, n, what, &name));
    const size_t folder = name[0] == '/' || !slash ? 0 : (size_t)(slash - r->yaml->path) + 1;
    const size_t bytes = folder + strlen(name) + 1;
    char *path = malloc(bytes), where[320];
    if (!path) return yoke_fail(YOKE_ENOMEM, "%s: no memory", r->yaml->path);
    yokei_text(path, bytes, "%.*s%s", (int)folder, r->yaml->path, name);
    yoke_status status = yokei_kernel_speeds(path, kind);
    free(path);
    yokei_text(where, sizeof where, "%s:%zu:%zu: %s", r->yaml->path, n->line, n->column, what);
    return status ? yoke_fail_context(status, "%s", where) : YOKE_OK;
}

static yoke_status read_peaks(const struct reader *r, node n, const char *what,
                              struct yokei_device_kind *kind)
{
    char text[160], rate_text[40];
    YOKE_TRY(yokei_yaml_keys(r->yaml, n, what, types));
    for (int type = 0; type < YOKEI_N_SPEED_TYPES; type++) {
        const struct yokei_speed *gemm = &kind->speed[type][YOKEI_CLASS_GEMM];
        const node peak = yokei_yaml_get(r->yaml, n, types[type]);
        if (!peak) continue;
        yokei_text(text, sizeof text, "%s of %s", what, types[type]);
        YOKE_TRY(number_of(r, peak, text, YOKEI_RATE, rate_range, &kind->peak[type]));
        const double fastest = gemm->n_points ? gemm->point[gemm->n_points - 1].rate : 0;
        if (kind->peak[type] >= fastest) continue;
        yokei_unit_write(YOKEI_RATE, fastest, rate_text, sizeof rate_text);
        return yokei_yaml_fail(r->yaml, peak, "%s is below the rate of gemm, %s; correct one of them", text,
                               rate_text);
    }
    return YOKE_OK;
}

static yoke_status read_device(const struct reader *r, node n, struct yokei_device_kind *kind)
{
    static const char *const keys[] = { "memory",  "speeds", "kernels",      "peak",        "bandwidth",
                                        "latency", "price",  "local-device", "local-ranks", NULL };
    char what[64], text[96];
    double memory = 0, own[2] = { -1, 0 };
    node value;
    YOKE_TRY(name_of(r, n, "a device", kind->name));
    yokei_text(what, sizeof what, "device %s", kind->name);
    YOKE_TRY(yokei_yaml_keys(r->yaml, n, what, keys));
    YOKE_TRY(yokei_yaml_need(r->yaml, n, what, "memory", "add its size, such as memory: 80GiB", &value));
    YOKE_TRY(number_at(r, n, what, "memory", YOKEI_MEMORY, memory_range, &memory));
    kind->memory = (uint64_t)memory;
    yokei_text(text, sizeof text, "%s: bandwidth", what);
    if ((value = yokei_yaml_get(r->yaml, n, "bandwidth"))) YOKE_TRY(read_bandwidth(r, value, text, &own[0]));
    YOKE_TRY(number_at(r, n, what, "latency", YOKEI_SECONDS, seconds_range, &own[1]));
    YOKE_TRY(number_at(r, n, what, "price", YOKEI_PRICE, price_range, &kind->price));
    const node speeds = yokei_yaml_get(r->yaml, n, "speeds"), kernels = yokei_yaml_get(r->yaml, n, "kernels");
    if (speeds && kernels)
        return yokei_yaml_fail(r->yaml, kernels, "%s has both 'speeds' and 'kernels'; remove one", what);
    if (!speeds && !kernels)
        return yokei_yaml_fail(r->yaml, n,
                               "%s has no speeds: add 'speeds', or 'kernels: FILE' with a file of yoke bench "
                               "kernels --json",
                               what);
    if (speeds) YOKE_TRY(read_speeds(r, speeds, what, own, kind));
    yokei_text(text, sizeof text, "%s: kernels", what);
    if (kernels) YOKE_TRY(read_kernels(r, kernels, text, kind));
    yokei_text(text, sizeof text, "%s: peak", what);
    if ((value = yokei_yaml_get(r->yaml, n, "peak"))) YOKE_TRY(read_peaks(r, value, text, kind));
    if ((value = yokei_yaml_get(r->yaml, n, "local-device"))) {
        const char *name;
        yokei_text(text, sizeof text, "%s: local-device", what);
        YOKE_TRY(text_of(r, value, text, &name));
        if (strlen(name) > 31 || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789:") != strlen(name))
            return yokei_yaml_fail(r->yaml, value, "%s '%.40s' is no name such as host or cuda:0", text,
                                   name);
        yokei_text(kind->device, sizeof kind->device, "%s", name);
    }
    return count_at(r, n, what, "local-ranks", &kind->sharers);
}

/* ---- links and hosts ---- */

static yoke_status read_link(const struct reader *r, node n, struct yokei_link *link)
{
    static const char *const keys[] = { "bandwidth", "latency", "wait", NULL };
    char what[64];
    node value;
    YOKE_TRY(name_of(r, n, "a link", link->name));
    yokei_text(what, sizeof what, "link %s", link->name);
    YOKE_TRY(yokei_yaml_keys(r->yaml, n, what, keys));
    YOKE_TRY(yokei_yaml_need(r->yaml, n, what, "bandwidth", "add one, such as bandwidth: 400Gbit/s", &value));
    YOKE_TRY(yokei_yaml_need(r->yaml, n, what, "latency", "add one, such as latency: 2us", &value));
    YOKE_TRY(number_at(r, n, what, "bandwidth", YOKEI_BANDWIDTH, link_range, &link->bytes_per_second));
    YOKE_TRY(number_at(r, n, what, "wait", YOKEI_SECONDS, seconds_range, &link->wait));
    return number_at(r, n, what, "latency", YOKEI_SECONDS, seconds_range, &link->seconds);
}

static yoke_status read_host_devices(const struct reader *r, node n, const char *host,
                                     struct yokei_host_devices *d)
{
    static const char *const keys[] = { "device", "count", "link", NULL };
    const struct yokei_cluster *c = r->cluster;
    node value;
    YOKE_TRY(yokei_yaml_keys(r->yaml, n, host, keys));
    YOKE_TRY(yokei_yaml_need(r->yaml, n, host, "device", "name one that 'devices:' defines", &value));
    YOKE_TRY(index_of(r, value, host, "device", c->kind[0].name, sizeof c->kind[0], c->n_kinds, &d->kind));
    d->n = 1, d->link = -1;
    YOKE_TRY(count_at(r, n, host, "count", &d->n));
    YOKE_TRY(link_at(r, n, host, "link", &d->link));
    if (d->n > 1 && d->link < 0)
        return yokei_yaml_fail(r->yaml, n,
                               "%s: the link between its %d devices %s is missing; add link: NAME", host,
                               d->n, c->kind[d->kind].name);
    return YOKE_OK;
}

static yoke_status read_host(const struct reader *r, node n, struct yokei_cluster_host *h)
{
    static const char *const keys[] = { "count", "devices", "inside", "nics", "price", NULL };
    char what[64], shown[96];
    node list;
    YOKE_TRY(name_of(r, n, "a host", h->name));
    yokei_text(what, sizeof what, "host %s", h->name);
    YOKE_TRY(yokei_yaml_keys(r->yaml, n, what, keys));
    h->n = h->n_links = 1, h->inner = -1;
    YOKE_TRY(count_at(r, n, what, "count", &h->n));
    YOKE_TRY(count_at(r, n, what, "nics", &h->n_links));
    YOKE_TRY(number_at(r, n, what, "price", YOKEI_PRICE, price_range, &h->price));
    YOKE_TRY(link_at(r, n, what, "inside", &h->inner));
    YOKE_TRY(yokei_yaml_need(r->yaml, n, what, "devices",
                             "add a list, such as devices: [{ device: NAME, count: 8, link: NAME }]", &list));
    if (list->kind != YOKEI_YAML_LIST || list->n < 1 || list->n > YOKEI_MOST_DEVICE_LISTS)
        return yokei_yaml_fail(r->yaml, list, "%s: devices is %s; it must be a list of 1 to %d entries", what,
                               list->kind == YOKEI_YAML_LIST ? "a list of another length"
                                                             : yokei_yaml_show(list, shown, sizeof shown),
                               YOKEI_MOST_DEVICE_LISTS);
    for (node d = yokei_yaml_first(r->yaml, list); d; d = yokei_yaml_next(r->yaml, d))
        YOKE_TRY(read_host_devices(r, d, what, &h->devices[h->n_lists++]));
    if (h->n_lists > 1 && h->inner < 0)
        return yokei_yaml_fail(
            r->yaml, n, "%s: the link between the devices of its %d entries is missing; add inside: NAME",
            what, h->n_lists);
    return YOKE_OK;
}

/* ---- links between hosts ---- */

static void set_all(struct yokei_cluster *c, int link)
{
    for (int a = 0; a < c->n_hosts; a++)
        for (int b = 0; b < c->n_hosts; b++) c->between[a][b] = a == b && c->host[a].n == 1 ? -1 : link;
}

/* The entry "{ hosts: all, link: NAME }" holds for the pairs that no other entry names. */
static yoke_status read_default(const struct reader *r, node list, node *used_out)
{
    int link = -1;
    *used_out = NULL;
    for (node n = yokei_yaml_first(r->yaml, list); n; n = yokei_yaml_next(r->yaml, n)) {
        const node hosts = n->kind == YOKEI_YAML_MAPPING ? yokei_yaml_get(r->yaml, n, "hosts") : NULL;
        if (!hosts || hosts->kind != YOKEI_YAML_TEXT || strcmp(hosts->text, "all") != 0) continue;
        if (*used_out) return yokei_yaml_fail(r->yaml, hosts, "between: 'all' is given twice; remove one");
        *used_out = n;
        YOKE_TRY(link_at(r, n, "between", "link", &link));
        set_all(r->cluster, link);
    }
    return YOKE_OK;
}

static yoke_status read_pair(const struct reader *r, node n, bool named[YOKEI_MOST_HOSTS][YOKEI_MOST_HOSTS])
{
    struct yokei_cluster *c = r->cluster;
    int pair[2] = { 0 }, link = -1, i = 0;
    node hosts;
    char shown[96];
    YOKE_TRY(yokei_yaml_need(r->yaml, n, "an entry of between", "hosts", "add hosts: [A, B]", &hosts));
    if (hosts->kind != YOKEI_YAML_LIST || hosts->n != 2)
        return yokei_yaml_fail(r->yaml, hosts, "between: hosts is %s; it must be 'all' or two names, [A, B]",
                               hosts->kind == YOKEI_YAML_LIST ? "a list of another length"
                                                              : yokei_yaml_show(hosts, shown, sizeof shown));
    for (node h = yokei_yaml_first(r->yaml, hosts); h; h = yokei_yaml_next(r->yaml, h))
        YOKE_TRY(
            index_of(r, h, "between", "host", c->host[0].name, sizeof c->host[0], c->n_hosts, &pair[i++]));
    YOKE_TRY(link_at(r, n, "between", "link", &link));
    const int a = pair[0], b = pair[1];
    if (a == b && c->host[a].n == 1)
        return yokei_yaml_fail(r->yaml, hosts,
                               "between: there is one host %s, so it has no link to another %s",
                               c->host[a].name, c->host[a].name);
    if (named[a][b])
        return yokei_yaml_fail(r->yaml, hosts, "between: hosts %s and %s are given twice; remove one",
                               c->host[a].name, c->host[b].name);
    named[a][b] = named[b][a] = true;
    c->between[a][b] = c->between[b][a] = link;
    return YOKE_OK;
}

static yoke_status read_between(const struct reader *r, node root)
{
    static const char *const keys[] = { "hosts", "link", NULL };
    static const char advice[] =
        "give a list with entries { hosts: [A, B], link: NAME }, or one link for all";
    struct yokei_cluster *c = r->cluster;
    bool named[YOKEI_MOST_HOSTS][YOKEI_MOST_HOSTS] = { { false } };
    const node n = yokei_yaml_get(r->yaml, root, "between");
    node all = NULL, value;
    int link = -1;
    if (n && n->kind == YOKEI_YAML_TEXT) {
        YOKE_TRY(link_at(r, root, "between", "between", &link));
        set_all(c, link);
    } else if (n && n->kind == YOKEI_YAML_LIST) {
        for (node e = yokei_yaml_first(r->yaml, n); e; e = yokei_yaml_next(r->yaml, e)) {
            YOKE_TRY(yokei_yaml_keys(r->yaml, e, "an entry of between", keys));
            YOKE_TRY(yokei_yaml_need(r->yaml, e, "an entry of between", "link", "add link: NAME", &value));
        }
        YOKE_TRY(read_default(r, n, &all));
        for (node e = yokei_yaml_first(r->yaml, n); e; e = yokei_yaml_next(r->yaml, e))
            if (e != all) YOKE_TRY(read_pair(r, e, named));
    } else if (n)
        return yokei_yaml_fail(r->yaml, n, "between is a mapping; %s", advice);
    for (int a = 0; a < c->n_hosts; a++)
        for (int b = a; b < c->n_hosts; b++)
            if (c->between[a][b] < 0 && (a != b || c->host[a].n > 1))
                return yokei_yaml_fail(r->yaml, n ? n : yokei_yaml_get(r->yaml, root, "hosts"),
                                       "the link between hosts %s and %s is missing; add { hosts: [%s, %s], "
                                       "link: NAME } to 'between'",
                                       c->host[a].name, c->host[b].name, c->host[a].name, c->host[b].name);
    return YOKE_OK;
}

/* ---- the file ---- */

static yoke_status read_name(const struct reader *r, node root)
{
    const node n = yokei_yaml_get(r->yaml, root, "name");
    const char *text;
    if (!n) return YOKE_OK;
    YOKE_TRY(text_of(r, n, "name", &text));
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127 || *c == '"' || *c == '\\')
            return yokei_yaml_fail(r->yaml, n, "name has a control character, a quote or a backslash");
    if (strlen(text) >= sizeof r->cluster->name)
        return yokei_yaml_fail(r->yaml, n, "name has more than %zu bytes", sizeof r->cluster->name - 1);
    yokei_text(r->cluster->name, sizeof r->cluster->name, "%s", text);
    return YOKE_OK;
}

static yoke_status read_all(const struct reader *r)
{
    static const char *const keys[] = { "name", "devices", "links", "hosts", "between", NULL };
    struct yokei_cluster *c = r->cluster;
    const node root = r->yaml->node;
    node entries;
    memset(c->between, 0xff, sizeof c->between); /* -1 */
    YOKE_TRY(yokei_yaml_keys(r->yaml, root, "a cluster file", keys));
    YOKE_TRY(read_name(r, root));
    YOKE_TRY(section(r, root, "devices", "add 'devices:' with an entry for each kind of device",
                     YOKEI_MOST_KINDS, &entries));
    for (node n = yokei_yaml_first(r->yaml, entries); n; n = yokei_yaml_next(r->yaml, n))
        YOKE_TRY(read_device(r, n, &c->kind[c->n_kinds++]));
    if (yokei_yaml_get(r->yaml, root, "links")) {
        YOKE_TRY(section(r, root, "links", "add an entry for each kind of link", YOKEI_MOST_LINKS, &entries));
        for (node n = yokei_yaml_first(r->yaml, entries); n; n = yokei_yaml_next(r->yaml, n))
            YOKE_TRY(read_link(r, n, &c->link[c->n_links++]));
    }
    YOKE_TRY(section(r, root, "hosts", "add 'hosts:' with an entry for each kind of host", YOKEI_MOST_HOSTS,
                     &entries));
    for (node n = yokei_yaml_first(r->yaml, entries); n; n = yokei_yaml_next(r->yaml, n))
        YOKE_TRY(read_host(r, n, &c->host[c->n_hosts++]));
    int64_t n_devices = 0;
    for (int h = 0; h < c->n_hosts; h++)
        for (int l = 0; l < c->host[h].n_lists; l++)
            n_devices += (int64_t)c->host[h].n * c->host[h].devices[l].n;
    if (n_devices > MOST_COUNT)
        return yokei_yaml_fail(r->yaml, entries, "the hosts have %lld devices; at most %d are planned for",
                               (long long)n_devices, MOST_COUNT);
    YOKE_TRY(read_between(r, root));
    const yoke_status status = yokei_cluster_check(c);
    return status ? yoke_fail_context(status, "%s", r->yaml->path) : YOKE_OK;
}

static yoke_status read_tree(struct yokei_yaml *yaml, struct yokei_cluster *cluster_out)
{
    struct yokei_cluster *c = calloc(1, sizeof *c);
    yoke_status status = c ? read_all(&(struct reader){ yaml, c })
                           : yoke_fail(YOKE_ENOMEM, "no memory to read %s", yaml->path);
    if (!status) *cluster_out = *c;
    free(c);
    yokei_yaml_free(yaml);
    return status;
}

yoke_status yokei_cluster_parse(const char *path, const char *text, size_t bytes,
                                struct yokei_cluster *cluster_out)
{
    struct yokei_yaml yaml;
    YOKE_TRY(yokei_yaml_parse(path, text, bytes, &yaml));
    return read_tree(&yaml, cluster_out);
}

yoke_status yokei_cluster_read(const char *path, struct yokei_cluster *cluster_out)
{
    struct yokei_yaml yaml;
    YOKE_TRY(yokei_yaml_read(path, &yaml));
    return read_tree(&yaml, cluster_out);
}
