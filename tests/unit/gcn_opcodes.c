/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each instruction of AMD computes, in each form in which Yoke's kernels use it: the executor runs
 * single instructions on the operands of tests/unit/gcn/vectors.txt, and its results must have the bits of
 * that file, which come from AMD's own description. All other registers and bytes must stay as they are. The
 * head of the file says its format.
 */
#include "tests/unit/test.h"

#include <stdlib.h>

#include "emulate/hip/gcn_step.h"

enum { SETS = 96, POOLS = 64, ITEMS = 32, SHOWN = 100 };

struct pool {
    char name[16];
    uint64_t values[SETS];
};

/* An input or output: a register, a bit per lane, SCC, the next instruction or memory. */
enum what { VECTOR, ACCUMULATOR, MASK, SCALAR, SCC, NEXT, LDS, GLOBAL };
struct item {
    enum what what;
    int reg, bits;           /* bits: 0: an output that may be anything */
    const struct pool *pool; /* of an input; NULL: `fixed` for all sets */
    uint64_t fixed;
    uint64_t expected[SETS]; /* of an output */
    uint32_t address[SETS];  /* of memory */
};

struct vectors {
    char *text, *at;
    struct pool pools[POOLS];
    int n_pools;
};

struct test_case {
    const char *form;
    int sets, n_inputs, n_outputs;
    struct item inputs[ITEMS], outputs[ITEMS];
    int ulp, nan_bits, nan_pair; /* nan_bits: 16, 32 or 64; 0: NaNs are compared */
    bool is_once, is_whole, is_scalar;
    uint64_t only[2]; /* the sets that are compared */
};

struct report {
    int runs, bad;
    int of_case, shown; /* differences of the present case; lines */
};

/* ---- the file ---- */

static char *next_line(struct vectors *v)
{
    char *line = v->at, *end = strchr(line, '\n');
    if (!*line || !end) return NULL;
    *end = '\0';
    v->at = end + 1;
    return line;
}

static uint64_t hex(const char *digits, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++) {
        const char c = digits[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) fail_msg("'%c' is no digit", c);
        value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return value;
}

/* Values of `bits` bits each; of one bit: one number with the first set in its lowest bit. */
static void read_values(const char *line, int n, int bits, uint64_t *out)
{
    const int digits = bits == 1 ? n / 4 : n * bits / 4;
    if (!line || (int)strlen(line) != digits) fail_msg("a line of vectors.txt has not %d digits", digits);
    for (int i = 0; i < n; i++)
        out[i] = bits == 1 ? hex(line + digits - 1 - i / 4, 1) >> i % 4 & 1
                           : hex(line + i * bits / 4, bits / 4);
}

static void read_all(struct vectors *v)
{
    const char *top = getenv("top_srcdir");
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/unit/gcn/vectors.txt", top ? top : ".");
    FILE *file = fopen(path, "r");
    if (!file) fail_msg("%s cannot be opened", path);
    fseek(file, 0, SEEK_END);
    const size_t bytes = (size_t)ftell(file);
    rewind(file);
    v->text = v->at = calloc(1, bytes + 1);
    assert_non_null(v->text);
    assert_int_equal(fread(v->text, 1, bytes, file), bytes);
    fclose(file);
}

static enum what what_of(const char *token)
{
    static const struct {
        const char *word;
        enum what what;
    } words[] = { { "scc", SCC },  { "next", NEXT },     { "lds", LDS }, { "global", GLOBAL },
                  { "v", VECTOR }, { "a", ACCUMULATOR }, { "m", MASK },  { "s", SCALAR } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strncmp(token, words[i].word, strlen(words[i].word))) return words[i].what;
    fail_msg("'%s' is no place", token);
    return VECTOR;
}

static void read_input(const struct vectors *v, struct test_case *c, const char *token)
{
    struct item *item = &c->inputs[c->n_inputs++];
    *item = (struct item){ .what = what_of(token), .reg = (int)strtol(token + 1, NULL, 10) };
    const char *equal = strchr(token, '='), *colon = strchr(token, ':');
    if (equal) {
        item->bits = 4 * (int)strlen(equal + 1);
        item->fixed = hex(equal + 1, (int)strlen(equal + 1));
        return;
    }
    for (int i = 0; i < v->n_pools && !item->pool; i++)
        if (colon && !strcmp(v->pools[i].name, colon + 1)) item->pool = &v->pools[i];
    if (!item->pool) fail_msg("'%s' names no pool", token);
    const bool is_wide = strstr(token, "64.") || strstr(token, "f32x2.") || strstr(token, ":global.")
                         || strstr(token, ":some.");
    item->bits = is_wide ? 64 : 32;
    c->is_scalar |= item->what == SCALAR || item->what == SCC;
}

static void read_marks(struct test_case *c, char *marks)
{
    for (char *save, *m = strtok_r(marks, " ", &save); m; m = strtok_r(NULL, " ", &save)) {
        if (!strncmp(m, "ulp=", 4)) c->ulp = atoi(m + 4);
        if (!strncmp(m, "nan=f", 5)) c->nan_bits = atoi(m + 5), c->nan_pair = strstr(m, "x2") != NULL;
        c->is_once |= !strcmp(m, "once");
        c->is_whole |= !strcmp(m, "whole");
        if (strncmp(m, "only=", 5)) continue;
        uint64_t bits[SETS];
        read_values(m + 5, c->sets, 1, bits);
        memset(c->only, 0, sizeof c->only);
        for (int i = 0; i < c->sets; i++) c->only[i / 64] |= bits[i] << i % 64;
    }
}

static int outputs_of(const struct test_case *c, enum gcn_arch arch)
{
    const int lanes = arch == GCN_GFX1100 ? 32 : 64;
    return c->is_once ? (c->sets + lanes - 1) / lanes : c->sets;
}

static void read_outputs(struct vectors *v, struct test_case *c, char *tokens, int n)
{
    for (char *save, *t = strtok_r(tokens, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
        struct item *item = &c->outputs[c->n_outputs++];
        const char *colon = strchr(t, ':');
        *item = (struct item){ .what = what_of(t),
                               .reg = (int)strtol(t + 1, NULL, 10),
                               .bits = atoi(colon + 1) };
        if (!item->bits) continue;
        if (item->what == LDS || item->what == GLOBAL) {
            uint64_t addresses[SETS];
            read_values(next_line(v), n, 16, addresses);
            for (int i = 0; i < n; i++) item->address[i] = (uint32_t)addresses[i];
            if (item->bits > 64) { /* words of one access, as several outputs */
                const char *line = next_line(v);
                const int words = item->bits / 32;
                assert_int_equal(strlen(line), n * item->bits / 4);
                c->n_outputs += words - 1;
                for (int w = 0; w < words; w++) {
                    struct item *part = item + w;
                    if (w) *part = *item;
                    for (int i = 0; i < n; i++) {
                        part->expected[i] = hex(line + i * item->bits / 4 + 8 * (words - 1 - w), 8);
                        if (w) part->address[i] += 4 * (uint32_t)w;
                    }
                }
                for (int w = 0; w < words; w++) item[w].bits = 32;
                continue;
            }
        }
        read_values(next_line(v), n, item->bits, item->expected);
    }
}

/* ---- one step ---- */

static uint32_t mixed(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352d;
    x = (x ^ x >> 15) * 0x846ca68b;
    return x ^ x >> 16;
}

static void fill(struct gcn_step *s)
{
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < 128; i++) s->s[i] = mixed(i + 1);
    for (uint32_t i = 0; i < GCN_STEP_VGPRS * 64; i++) s->v[i / 64][i % 64] = mixed(i + 1000);
    for (uint32_t i = 0; i < GCN_STEP_AGPRS * 64; i++) s->a[i / 64][i % 64] = mixed(i + 9000);
    for (uint32_t i = 0; i < GCN_STEP_MEMORY; i++)
        s->lds[i] = s->global[i] = (unsigned char)(i * 167 + (i >> 8) * 59 + 13);
}

static uint32_t *row_of(struct gcn_step *s, const struct item *item, int word)
{
    return item->what == ACCUMULATOR ? s->a[item->reg + word] : s->v[item->reg + word];
}

static uint64_t input_of(const struct item *item, int set)
{
    return item->pool ? item->pool->values[set] : item->fixed;
}

/* Sets first, first + 1, ... in the lanes from 0 on; of a scalar case the one set. */
static void put_inputs(const struct test_case *c, struct gcn_step *s, int first, int n)
{
    for (int k = 0; k < c->n_inputs; k++) {
        const struct item *item = &c->inputs[k];
        if (item->what == SCC) s->scc = (uint32_t)input_of(item, first);
        if (item->what == SCALAR)
            for (int w = 0; w < item->bits / 32; w++)
                s->s[item->reg + w] = (uint32_t)(input_of(item, first) >> 32 * w);
        if (item->what == MASK) s->s[item->reg] = 0;
        if (item->what == MASK && n > 32) s->s[item->reg + 1] = 0;
        for (int lane = 0; lane < n; lane++) {
            const uint64_t value = input_of(item, first + lane);
            if (item->what == VECTOR || item->what == ACCUMULATOR)
                for (int w = 0; w < item->bits / 32; w++)
                    row_of(s, item, w)[lane] = (uint32_t)(value >> 32 * w);
            if (item->what == MASK) s->s[item->reg + lane / 32] |= (uint32_t)value << lane % 32;
        }
    }
}

static bool is_nan(uint64_t bits, int width)
{
    return width == 16   ? (bits & 0x7fff) > 0x7c00
           : width == 32 ? (bits & 0x7fffffff) > 0x7f800000
                         : (bits & ~((uint64_t)1 << 63)) > (uint64_t)0x7ff << 52;
}

static bool is_quiet(uint64_t bits, int width)
{
    return is_nan(bits, width) && bits >> (width == 16 ? 9 : width == 32 ? 22 : 51) & 1;
}

static int64_t order_of(uint32_t bits) { return bits >> 31 ? -(int64_t)(bits & 0x7fffffff) : (int64_t)bits; }

/* Whether the result is one of those that are right. */
static bool is_right(const struct test_case *c, uint64_t got, uint64_t expected)
{
    if (got == expected) return true;
    if (c->nan_bits == 16) {
        for (int half = 0; half < (c->nan_pair ? 2 : 1); half++) {
            const uint64_t g = got >> 16 * half & 0xffff, e = expected >> 16 * half & 0xffff;
            if (g != e && !(is_nan(e, 16) && is_quiet(g, 16))) return false;
        }
        return c->nan_pair || got >> 16 == expected >> 16;
    }
    if (c->nan_bits == 32 && c->nan_pair) {
        for (int half = 0; half < 2; half++) {
            const uint64_t g = got >> 32 * half & 0xffffffff, e = expected >> 32 * half & 0xffffffff;
            if (g != e && !(is_nan(e, 32) && is_quiet(g, 32))) return false;
        }
        return true;
    }
    if (c->nan_bits && is_nan(expected, c->nan_bits)) return is_quiet(got, c->nan_bits);
    return c->ulp && !is_nan(got, 32)
           && llabs(order_of((uint32_t)got) - order_of((uint32_t)expected)) <= c->ulp;
}

static void complain(struct report *r, const struct test_case *c, enum gcn_arch arch, int set,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));
static void complain(struct report *r, const struct test_case *c, enum gcn_arch arch, int set,
                     const char *format, ...)
{
    r->bad++;
    if (r->of_case++ >= 2 || r->shown++ >= SHOWN) return;
    va_list arguments;
    va_start(arguments, format);
    printf("# %s: %s: set %d:", gcn_arch_name(arch), c->form, set);
    for (int k = 0; k < c->n_inputs && set >= 0; k++) {
        static const char letters[] = "vams";
        const struct item *item = &c->inputs[k];
        const unsigned long long value = input_of(item, set);
        if (item->what == SCC)
            printf(" scc=%llx", value);
        else
            printf(" %c%d=%0*llx", letters[item->what], item->reg, item->bits / 4, value);
    }
    printf(": ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

/*
 * Compare one output in one lane, or of a scalar case. `expect` is what the whole state should be; a result
 * that is right goes there.
 */
static void check_value(const struct test_case *c, struct report *r, enum gcn_arch arch,
                        const struct item *item, int set, int lane, const struct gcn_step *got,
                        struct gcn_step *expect)
{
    struct gcn_step *g = (struct gcn_step *)(uintptr_t)got;
    const uint64_t wanted = item->expected[c->is_once ? set / (arch == GCN_GFX1100 ? 32 : 64) : set];
    uint64_t value = 0;
    const int words = item->bits / 32;
    for (int w = 0; w < words; w++) {
        const uint32_t word = item->what == SCALAR ? g->s[item->reg + w] : row_of(g, item, w)[lane];
        value |= (uint64_t)word << 32 * w;
        if (item->what == SCALAR)
            expect->s[item->reg + w] = word;
        else
            row_of(expect, item, w)[lane] = word;
    }
    if (!is_right(c, value, wanted))
        complain(r, c, arch, set, "%c%d is %0*llx instead of %0*llx", item->what == SCALAR ? 's' : 'v',
                 item->reg, 8 * words, (unsigned long long)value, 8 * words, (unsigned long long)wanted);
}

static bool is_compared(const struct test_case *c, int set) { return c->only[set / 64] >> set % 64 & 1; }

/* The outputs of sets in lanes that `exec` has. */
static void check_outputs(const struct test_case *c, struct report *r, enum gcn_arch arch, int first, int n,
                          uint64_t exec, const struct gcn_step *got, struct gcn_step *expect)
{
    const int lanes = arch == GCN_GFX1100 ? 32 : 64;
    for (int k = 0; k < c->n_outputs; k++) {
        const struct item *item = &c->outputs[k];
        if (item->what == SCALAR) {
            check_value(c, r, arch, item, first, 0, got, expect);
        } else if (item->what == SCC) {
            expect->scc = got->scc;
            if (got->scc != item->expected[first])
                complain(r, c, arch, first, "SCC is %u instead of %u", got->scc,
                         (unsigned)item->expected[first]);
        } else if (item->what == NEXT) {
            expect->next = got->next;
            if (got->next != (int64_t)item->expected[first])
                complain(r, c, arch, first, "the program goes on at %lld instead of %lld",
                         (long long)got->next, (long long)item->expected[first]);
        }
        if (item->what == SCALAR || item->what == SCC || item->what == NEXT) continue;
        uint64_t mask = 0, is = 0;
        for (int lane = 0; lane < n; lane++) {
            const int set = first + lane;
            if (!(exec >> lane & 1)) continue;
            if (item->what == MASK) mask |= item->expected[set] << lane;
            if (item->what == LDS || item->what == GLOBAL)
                for (int b = 0; b < item->bits / 8; b++)
                    (item->what == LDS ? expect->lds : expect->global)[item->address[set] + (uint32_t)b] =
                        (unsigned char)(item->expected[set] >> 8 * b);
            if (item->what != VECTOR && item->what != ACCUMULATOR) continue;
            if (is_compared(c, set))
                check_value(c, r, arch, item, set, lane, got, expect);
            else
                for (int w = 0; w < item->bits / 32; w++)
                    row_of(expect, item, w)[lane] = row_of((struct gcn_step *)(uintptr_t)got, item, w)[lane];
        }
        if (item->what != MASK) continue;
        is = got->s[item->reg] | (lanes == 64 ? (uint64_t)got->s[item->reg + 1] << 32 : 0);
        for (int w = 0; w < lanes / 32; w++) expect->s[item->reg + w] = got->s[item->reg + w];
        if (!item->bits) continue;
        uint64_t wrong = is ^ mask;
        for (int lane = 0; lane < lanes; lane++)
            if (lane < n && !is_compared(c, first + lane)) wrong &= ~((uint64_t)1 << lane);
        if (wrong) {
            const int lane = __builtin_ctzll(wrong);
            complain(r, c, arch, lane < n ? first + lane : -1, "bit %d of s%d is %u instead of %u", lane,
                     item->reg, (unsigned)(is >> lane & 1), (unsigned)(mask >> lane & 1));
        }
    }
}

static void check_rest(const struct test_case *c, struct report *r, enum gcn_arch arch, int set,
                       const struct gcn_step *got, const struct gcn_step *expect, bool all)
{
    for (int i = 0; i < 128; i++)
        if (got->s[i] != expect->s[i])
            complain(r, c, arch, set, "s%d has become %08x, it should be %08x", i, got->s[i], expect->s[i]);
    if (got->scc != expect->scc) complain(r, c, arch, set, "SCC has become %u", got->scc);
    if (got->next != expect->next)
        complain(r, c, arch, set, "the program goes on at %lld", (long long)got->next);
    if (!all) return;
    for (int i = 0; i < GCN_STEP_VGPRS * 64; i++)
        if (got->v[i / 64][i % 64] != expect->v[i / 64][i % 64])
            complain(r, c, arch, set, "lane %d of v%d has become %08x, it should be %08x", i % 64, i / 64,
                     got->v[i / 64][i % 64], expect->v[i / 64][i % 64]);
    if (memcmp(got->a, expect->a, sizeof got->a)) complain(r, c, arch, set, "another AGPR has changed");
    for (int i = 0; i < GCN_STEP_MEMORY; i++)
        if (got->lds[i] != expect->lds[i] || got->global[i] != expect->global[i])
            complain(r, c, arch, set,
                     "byte %d of memory has become %02x %02x, it should be %02x %02x (LDS, global)", i,
                     got->lds[i], got->global[i], expect->lds[i], expect->global[i]);
}

static void run_step(const struct test_case *c, struct report *r, enum gcn_arch arch,
                     const unsigned char *code, int bytes, int first, int n, uint64_t exec, bool all)
{
    static struct gcn_step clean, step, before;
    if (!clean.s[0]) fill(&clean);
    if (all)
        step = clean;
    else
        memcpy(step.s, clean.s, sizeof step.s), step.scc = 0;
    step.next = 0;
    step.s[126] = (uint32_t)exec;
    if (arch != GCN_GFX1100) step.s[127] = (uint32_t)(exec >> 32);
    put_inputs(c, &step, first, n);
    if (all)
        before = step;
    else
        memcpy(before.s, step.s, sizeof step.s), before.scc = step.scc, before.next = step.next;
    before.next = bytes;
    struct kernel_fault fault;
    r->runs++;
    if (gcn_step(arch, code, (size_t)bytes, &step, &fault)) {
        complain(r, c, arch, first, "%s", fault.text);
        return;
    }
    check_outputs(c, r, arch, first, n, exec, &step, &before);
    check_rest(c, r, arch, first, &step, &before, all);
}

/* All sets of a case on one architecture. */
static void run_case(const struct test_case *c, struct report *r, enum gcn_arch arch, const char *digits)
{
    unsigned char code[24];
    const int bytes = (int)strlen(digits) / 2, lanes = arch == GCN_GFX1100 ? 32 : 64;
    assert_true(bytes >= 4 && bytes <= 24);
    r->of_case = 0;
    for (int i = 0; i < bytes; i++) code[i] = (unsigned char)hex(digits + 2 * i, 2);
    const uint64_t full = ~(uint64_t)0 >> (64 - lanes);
    if (c->is_scalar) {
        for (int set = 0; set < c->sets; set++) run_step(c, r, arch, code, bytes, set, 1, full, set < 2);
        return;
    }
    for (int first = 0; first < c->sets; first += lanes) {
        const int n = c->sets - first < lanes ? c->sets - first : lanes;
        run_step(c, r, arch, code, bytes, first, n, ~(uint64_t)0 >> (64 - n), true);
    }
    if (c->is_once || c->is_whole) return;
    /* lanes that are off keep what they have */
    const int n = c->sets < lanes ? c->sets : lanes;
    run_step(c, r, arch, code, bytes, 0, n, 0xa5f00f3c5a96c3e1 & ~(uint64_t)0 >> (64 - n), true);
}

/* Fields of a line that " ; " parts. */
static char *field(char **rest)
{
    char *start = *rest, *end = strstr(start, " ; ");
    if (end)
        *end = '\0', *rest = end + 3;
    else
        *rest = start + strlen(start);
    return start;
}

static void read_case(struct vectors *v, char *line, struct report reports[GCN_ARCHS], bool counts[GCN_ARCHS])
{
    static struct test_case c;
    memset(&c, 0, sizeof c);
    c.only[0] = c.only[1] = ~(uint64_t)0;
    char *rest = line + strlen("case ");
    c.form = field(&rest);
    c.sets = atoi(field(&rest));
    char *codes = field(&rest), *inputs = field(&rest), *outputs = field(&rest);
    read_marks(&c, rest);
    for (char *save, *t = strtok_r(inputs, " ", &save); t; t = strtok_r(NULL, " ", &save))
        read_input(v, &c, t);
    char *equal = strchr(codes, '=');
    assert_non_null(equal);
    *equal = '\0';
    const enum gcn_arch first = gcn_arch_of(codes);
    *equal = '=';
    read_outputs(v, &c, outputs, outputs_of(&c, first));
    for (char *save, *t = strtok_r(codes, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
        equal = strchr(t, '=');
        *equal = '\0';
        const enum gcn_arch arch = gcn_arch_of(t);
        assert_int_not_equal(arch, GCN_ARCHS);
        run_case(&c, &reports[arch], arch, equal + 1);
        counts[arch] = true;
    }
}

static void test_vectors(void **state)
{
    (void)state;
    static struct vectors v;
    struct report reports[GCN_ARCHS] = { { 0 } };
    bool counts[GCN_ARCHS] = { false };
    int cases = 0, bad = 0;
    read_all(&v);
    for (char *line; (line = next_line(&v));) {
        if (*line == '#') continue;
        if (!strncmp(line, "pool ", 5)) {
            struct pool *pool = &v.pools[v.n_pools++];
            int bits;
            assert_true(v.n_pools <= POOLS);
            assert_int_equal(2, sscanf(line, "pool %15s %d", pool->name, &bits));
            read_values(next_line(&v), SETS, bits, pool->values);
        } else if (!strncmp(line, "case ", 5)) {
            cases++;
            read_case(&v, line, reports, counts);
        } else {
            fail_msg("a line of vectors.txt that is neither a pool nor a case: %.60s", line);
        }
    }
    for (int a = 0; a < GCN_ARCHS; a++) {
        printf("# %s: %d steps, %d differences\n", gcn_arch_name((enum gcn_arch)a), reports[a].runs,
               reports[a].bad);
        assert_true(counts[a]);
        bad += reports[a].bad;
    }
    printf("# %d cases\n", cases);
    assert_true(cases > 1000);
    assert_int_equal(bad, 0);
    free(v.text);
}

/* A difference is seen: a vector that says something else. */
static void test_difference(void **state)
{
    (void)state;
    static struct test_case c = {
        .form = "v_add_u32_e32 v24, v8, v12", .sets = 1, .n_inputs = 2, .n_outputs = 1, .is_once = false
    };
    c.only[0] = 1;
    c.inputs[0] = (struct item){ .what = VECTOR, .reg = 8, .bits = 32, .fixed = 3 };
    c.inputs[1] = (struct item){ .what = VECTOR, .reg = 12, .bits = 32, .fixed = 4 };
    c.outputs[0] = (struct item){ .what = VECTOR, .reg = 24, .bits = 32, .expected = { 7 } };
    struct report r = { 0 };
    static const char code[] = "08193068";
    run_case(&c, &r, GCN_GFX90A, code);
    assert_int_equal(r.bad, 0);
    c.outputs[0].expected[0] = 8;
    run_case(&c, &r, GCN_GFX90A, code);
    assert_int_equal(r.bad, 2);
    /* the result in another register is two differences: one is missing, one is too many */
    c.outputs[0].reg = 25, c.outputs[0].expected[0] = 7, r.bad = 0;
    run_case(&c, &r, GCN_GFX90A, code);
    assert_int_equal(r.bad, 4);
}

static uint64_t draw(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Words that no compiler made are refused or executed, inside the registers and the memory. */
static void test_noise(void **state)
{
    (void)state;
    /* how instructions of the formats begin, in the highest byte of the first word */
    static const unsigned char formats[] = { 0x7e, 0x7c, 0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6,
                                             0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xe0, 0xc0, 0xf4,
                                             0xcc, 0xc8, 0xca, 0xbe, 0xbf, 0xb0, 0x80 };
    const char *soak = getenv("YOKE_SOAK");
    const int trials = soak && !strcmp(soak, "1") ? 1000000 : 4000;
    static struct gcn_step step;
    uint64_t seed = 1;
    int executed = 0;
    for (int trial = 0; trial < trials; trial++) {
        const size_t n = 4 * (1 + draw(&seed) % 3);
        unsigned char *code = malloc(n); /* so that a sanitizer sees a read behind the end */
        assert_non_null(code);
        for (size_t i = 0; i < n; i++) code[i] = (unsigned char)draw(&seed);
        if (draw(&seed) & 1) code[3] = formats[draw(&seed) % sizeof formats];
        if (n > 4 && draw(&seed) & 1) { /* low registers, which a step has */
            code[0] &= 63, code[4] &= 63, code[1] &= 1;
            if (draw(&seed) & 7) code[5] &= 3;
        }
        for (int i = 0; i < 128; i++)
            step.s[i] = (uint32_t)(draw(&seed) % (draw(&seed) & 3 ? 1ull << 32 : 4096));
        for (int i = 0; i < GCN_STEP_VGPRS * 64; i++) step.v[i / 64][i % 64] = mixed((uint32_t)(trial + i));
        struct kernel_fault fault;
        const enum kernel_error error = gcn_step((enum gcn_arch)(draw(&seed) % GCN_ARCHS), code, n, &step,
                                                 &fault);
        executed += !error;
        if (error) assert_int_not_equal(fault.text[0], 0);
        free(code);
    }
    assert_in_range(executed, trials / 20, trials / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_vectors), cmocka_unit_test(test_difference),
                                        cmocka_unit_test(test_noise) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
