/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planted errors in the text of OpenCL kernels, and in a kernel of the host. The conformance sweep must
 * report each error, and must pass the same case without the error. The text to replace must be exactly where
 * the test looks for it. So if a kernel is rewritten, no row of this test can silently plant nothing. Between
 * barriers PoCL runs work-items one after the other, and it adds its own barriers around loops. Errors that
 * PoCL hides in this way are not planted.
 *
 * On CUDA some errors are in one variant alone, and the sweep is that of yoke verify without options. So it
 * must run the variant in which the error is. Other errors are races and reads of memory that has no value.
 * The stand-in driver knows them, so the sweep must say what they are, not only that a number is wrong. They
 * end the CUDA context, so each of them runs in a process of its own.
 *
 *   planted_kernels SPEC      SPEC: opencl:0, or cuda:0 on the stand-in driver
 */
#include "backends/gpu/driver.h"
#include "conform/conform.h"
#include "core/backend.h"
#include "core/base/base.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The change to the text after `after`, up to the next kernel. `after` must occur once. */
enum change {
    REPLACE, /* replace `find`, which must occur once, by `by` */
    REMOVE,  /* remove the nth `find` */
    RAISE,   /* the nth `find` to before the statement that it follows */
};

static const struct plant {
    const char *name;
    const char *family; /* the family of the .yk file; "": the prelude, which is in all programs */
    const char *after;
    enum change change;
    const char *find, *by;
    int nth;
    const char *op, *dtype, *variant;
    bool soak; /* only in the full sweep, because it compiles longest */
    /* the sweep is not told the type and the variant, and must find the error there, and nowhere else */
    bool is_sought;
    const char *says; /* what the reason of the failed line must say; NULL: a number is wrong */
} plants[] = {
    /* wrong rounding */
    { "a conversion to bf16 that truncates", "", "yk_to_bf16_##s(V x)", REPLACE,
      "u + 0x7fffu + ((u >> 16) & 1u)", "u", 0, "add", "bf16", "l1w16" },
    { "a conversion to bf16 that rounds ties up", "", "yk_to_bf16_##s(V x)", REPLACE,
      "0x7fffu + ((u >> 16) & 1u)", "0x8000u", 0, "cast", "f32", "l1w1" },
    { "a conversion to f16 that rounds towards zero", "", "yk_store1_f16", REPLACE,
      "vstore_half_rte(x, 0, (__global half *)(p + i))", "vstore_half_rtz(x, 0, (__global half *)(p + i))", 0,
      "add", "f16", "l1w1" },
    /* dropped last column */
    { "a row whose last column is not stored", "",
      "YK_FN void yk_storew_##S(YK_GLOBAL yk_##S *p, yk_long i, yk_long n, yk_vec v)                   \\",
      REPLACE, "for (int j = 0; i + j < n; j++)", "for (int j = 0; i + j + 1 < n; j++)", 0,
      "layernorm_forward", "f32", "l1w16" },
    { "a product whose last column is not stored", "gemm", "YK_KERNEL(gemm_team)", REPLACE,
      "yk_min_long(N - n, YK_BN)", "yk_min_long(N - n - 1, YK_BN)", 0, "gemm", "f32", "team64" },
    { "a sum over a row without its last column", "norm", "#if YK_L == 1\nYK_KERNEL(layernorm_forward)",
      REPLACE, "beta ? C : 0", "beta ? C - 1 : 0", 0, "layernorm_forward", "f32", "l1w1" },
    /* missing and misplaced barriers between the lanes of a team */
    { "a barrier that is missing before lanes read each other's sums", "", "#define YK_DEFINE_TEAM", REMOVE,
      "barrier(CLK_LOCAL_MEM_FENCE);", NULL, 1, "layernorm_forward", "f32", "l32w1" },
    { "a barrier that stands before lanes write their sums, not behind", "", "#define YK_DEFINE_TEAM", RAISE,
      "barrier(CLK_LOCAL_MEM_FENCE);", NULL, 1, "xent_forward", "f32", "l64w1" },
    { "a product that multiplies the block before last again", "gemm", "YK_KERNEL(gemm_team)", REMOVE,
      "gemm_put(ta, layout_a, to_a, YK_BM, blocks_a + now_a);", NULL, 1, "gemm", "f32", "team64" },
    { "a barrier that is missing before queries are used", "attention", "YK_KERNEL(attention_dkv_team)",
      REMOVE, "ARRIVE();", NULL, 1, "attention_backward", "f32", "team" },
    /* unmasked NaN */
    { "masked values that are taken times 0", "attention", "YK_FN void attention_accumulate", REPLACE,
      "sign * (c + k - ROW(i)) >= bound", "sign * (c + k - ROW(i)) >= -(1 << 30)", 0, "attention_forward",
      "f32", "team" },
    { "masked values that are taken times 0, in registers", "attention", "YK_FN void attention_update",
      REPLACE, "sign * (k - i) >= bound", "sign * (k - i) >= -YK_KB", 0, "attention_forward", "f32", "",
      .soak = true },
    /* rotary pairs */
    { "neighbouring channels turned together", "rope", "YK_FN void rope_heads", REPLACE,
      "*first = x + n * ldx + h * D, *second = first + half_D;",
      "*first = x + n * ldx + h * D + i, *second = first + 1;", 0, "rope", "f32", "l1w1" },
    /* K/V heads */
    { "query heads that read another K/V head, forward", "attention", " attention_forward_team)", REPLACE,
      "hkv = (lead + h) / group", "hkv = ((lead + h) / group + 1) % Hkv", 0, "attention_forward", "f32",
      "team" },
    { "query heads that read K/V heads in turn, in dq", "attention", " attention_dq_team)", REPLACE,
      "hkv = (lead + h) / group", "hkv = (lead + h) % Hkv", 0, "attention_backward", "f32", "team",
      .soak = true },
    { "a K/V head's gradient from query heads one further on", "attention", "YK_FN int attention_first_head",
      REPLACE, "head = kv * group - lead", "head = kv * group - lead + (kv > 0)", 0, "attention_backward",
      "f32", "team" },
    { "a K/V head's gradient from query heads one further on, in registers", "attention",
      "YK_FN int attention_first_head", REPLACE, "head = kv * group - lead",
      "head = kv * group - lead + (kv > 0)", 0, "attention_backward", "f32", "", .soak = true },
};

/* Errors of the variant that a GPU uses, which has ways of its own for 16 bits. */
static const struct plant cuda_plants[] = {
    { "a conversion to bf16 that truncates, in vectors of lanes alone", "", "#define YK_TWO_TO_f16", REPLACE,
      "word = yk_two_to_bf16(v.s[2 * j], v.s[2 * j + 1]);",
      "word = yk_bits(v.s[2 * j]) >> 16 | (yk_bits(v.s[2 * j + 1]) & 0xffff0000u);", 0, "scale", "bf16",
      "l32w1", .is_sought = true },
    { "a conversion to f16 that rounds towards zero, in vectors of lanes alone", "",
      "#define YK_TWO_FROM_f16", REPLACE, "word = yk_two_to_f16(v.s[2 * j], v.s[2 * j + 1]);",
      "word = yk_two_to_f16(yk_unbits(yk_bits(v.s[2 * j]) & ~0x1fffu), v.s[2 * j + 1]);", 0, "scale", "f16",
      "l32w1", .is_sought = true },
    { "a row that is not at even addresses, whose last element in a vector is that before", "",
      "YK_FN yk_wordsn yk_fetch_words", REPLACE, "(yk_uint)p[2 * j + 1] << 16;", "(yk_uint)p[2 * j] << 16;",
      0, "layernorm_forward", "f16", "l32w1" },
    { "a sum over rows that leaves out the rows behind the last four", "", "#define yk_sum_rows", REPLACE,
      "for (; r_ < (end); r_ += YK_DOWN)", "for (; !(even) && r_ < (end); r_ += YK_DOWN)", 0, "bias_backward",
      "f32", "l32w1" },
    { "a run of tokens that is merged with the first of its numbers alone", "embed", "YK_KERNEL(embed_merge)",
      REPLACE, "= numbers[i];", "= numbers[own * run];", 0, "embed_backward", "f32", "l32w1" },
    { "a row of many tokens that ends with the team's first chunk", "embed",
      "YK_KERNEL(embed_backward_tokens)(YK_PTR(const int, keys)", REPLACE, "stop = from + YK_L + 1",
      "stop = end", 0, "embed_backward", "f32", "l32w1" },
    /* races, and reads of memory that has no value */
    { "two teams that own one token", "embed", "YK_KERNEL(embed_backward_tokens)(YK_PTR(const int, tokens)",
      REPLACE, "(int)v % teams != team", "(int)v % teams / 2 != team / 2", 0, "embed_backward", "f32", "l1w1",
      .says = "of the same block wrote, with no barrier and no __syncwarp() between them" },
    { "teams that overlap by a column", "elementwise", "YK_KERNEL(scale)", REPLACE, "begin + per_team)",
      "begin + per_team + 1)", 0, "scale", "f32", "l1w1",
      .says = "of the same block wrote, with no barrier and no __syncwarp() between them" },
    { "copies that nobody waits for", "attention", " attention_forward_mma)", REMOVE, "yk_copies_wait(0);",
      NULL, 1, "attention_forward", "bf16", "mma", .says = "of shared memory that were never written" },
    { "a barrier that is missing behind copies", "attention", " attention_forward_mma)", REMOVE,
      "yk_barrier();", NULL, 2, "attention_forward", "bf16", "mma", .soak = true,
      .says = "of shared memory that thread" },
    /* masked elements on matrix units */
    { "a square on the diagonal whose masked values are taken times 0", "attention",
      "YK_FN void attention_add(", REPLACE, "past == 0 && attention_ends(", "past == 1 && attention_ends(", 0,
      "attention_forward", "bf16", "mma", .soak = true },
    { "squares behind the diagonal that are taken times 0", "attention", "YK_FN void attention_add(", REPLACE,
      "if (past > 0) continue;", "", 0, "attention_backward", "f16", "mma", .soak = true },
    { "queries before a key that are not masked in the lower half of a square", "attention",
      " attention_dkv_mma)", REPLACE, "< row + 8 * i - COLUMN_OF(0) - c0)", "< row - COLUMN_OF(0) - c0)", 0,
      "attention_backward", "bf16", "mma", .soak = true },
    { "C that is read at beta 0", "gemm", "YK_FN void gemm_finish4(", REPLACE, "if (flags & HAS_BETA) {",
      "if (YK_L) {", 0, "gemm", "f32", "team64", .says = "(c + 0, byte 256 of the 516 bytes at" },
};

/* ---- planting ---- */

static const struct plant *planted; /* NULL: texts without errors */
static const struct yokei_gpu_driver *driver;
static int n_changed,
    n_missing; /* numbers of programs that were changed, and of programs that lack the text to change */

static const char *nth(const char *from, const char *end, const char *find, int n)
{
    for (const char *at = from; (at = strstr(at, find)) && at < end; at++)
        if (n-- == 1) return at;
    return NULL;
}

static int count(const char *from, const char *end, const char *find)
{
    int n = 0;
    while (nth(from, end, find, n + 1)) n++;
    return n;
}

/* The begin of the statement that ends before `at`. */
static const char *statement_before(const char *from, const char *at)
{
    while (at > from && (isspace((unsigned char)at[-1]) || at[-1] == '\\')) at--;
    if (at > from && (at[-1] == ';' || at[-1] == '}')) at--;
    while (at > from && !strchr(";{}", at[-1])) at--;
    return at;
}

/*
 * The text with its error; the caller frees it. NULL if the text to change does not occur, or occurs more
 * than once.
 */
static char *change_text(const struct plant *p, const char *text)
{
    const char *after = strstr(text, p->after), *end;
    if (!after || strstr(after + 1, p->after)) return NULL;
    end = strstr(after + strlen(p->after), "YK_KERNEL(");
    const char *bounded = strstr(after + strlen(p->after), "YK_KERNEL_BY(");
    if (!end) end = after + strlen(after);
    if (bounded && bounded < end) end = bounded;
    const int n = count(after, end, p->find), which = p->change == REPLACE ? 1 : p->nth;
    if (n < which || (p->change == REPLACE && n != 1)) return NULL;
    char *out = malloc(strlen(text) + (p->by ? strlen(p->by) : 0) + 2);
    const char *at = nth(after, end, p->find, which),
               *raised = p->change == RAISE ? statement_before(after, at) : at;
    if (out)
        sprintf(out, "%.*s%s%.*s%s", (int)(raised - text), text,
                p->change == RAISE ? p->find
                : p->by            ? p->by
                                   : "",
                (int)(at - raised), raised, at + strlen(p->find));
    return out;
}

static yoke_status build(yoke_device *device, const struct yokei_gpu_source *source, void **program_out)
{
    struct yokei_gpu_source wrong = *source;
    if (!planted || (planted->family[0] && strcmp(planted->family, source->name)))
        return driver->build(device, source, program_out);
    char *text = change_text(planted, planted->family[0] ? source->text : source->prelude);
    if (!text) {
        n_missing++;
        return yoke_fail(
            YOKE_EINTERNAL,
            "planted kernels: '%s' does not stand %s behind '%s'; adapt the table to the kernel's new text",
            planted->find, planted->change == REPLACE ? "once" : "so often", planted->after);
    }
    *(planted->family[0] ? &wrong.text : &wrong.prelude) = text;
    n_changed++;
    const yoke_status status = driver->build(device, &wrong, program_out);
    free(text);
    return status;
}

static yoke_status open_planted(const char *spec, yoke_device **device_out)
{
    static struct yokei_gpu_driver wrapped;
    YOKE_TRY(yoke_device_open(spec, NULL, device_out));
    driver = yokei_gpu(*device_out)->driver;
    wrapped = *driver;
    wrapped.build = build;
    yokei_gpu(*device_out)->driver = &wrapped;
    (*device_out)->cache_dir[0] = '\0'; /* so that no wrong program stays in the cache */
    return YOKE_OK;
}

/* ---- running ---- */

struct outcome {
    struct conform_line failed; /* op NULL: no line failed */
    char variant[64], text[1400];
};

static void keep(void *context, const struct conform_line *line)
{
    struct outcome *o = context;
    if (line->verdict != CONFORM_FAIL || o->failed.op) return;
    o->failed = *line;
    yokei_text(o->variant, sizeof o->variant, "%s", line->variant);
    conform_text(line, o->text, sizeof o->text);
}

static yoke_status sweep(yoke_device *device, const struct plant *p, int only_case,
                         struct conform_summary *summary, struct outcome *o)
{
    struct conform_options options = CONFORM_OPTIONS_INIT;
    options.op = p->op;
    if (!p->is_sought || only_case) {
        options.dtype = p->dtype;
        options.variant = p->variant[0] ? p->variant : yoke_variant_name(device, p->op, 0);
    }
    options.only_case = only_case;
    *o = (struct outcome){ .variant = "" };
    return conform_run(device, &options, keep, o, summary);
}

/*
 * NULL if the sweep reports wrong numbers, and the correct kernel passes the case that the sweep names.
 * Otherwise the reason for the failure.
 */
static const char *judge(const char *spec, yoke_device *sound, const struct plant *p, char *text,
                         size_t bytes)
{
    struct conform_summary with = { .n_fail = 0 }, without = { .n_fail = 0 };
    struct outcome wrong, right;
    yoke_device *device;
    planted = p;
    n_changed = n_missing = 0;
    if (open_planted(spec, &device)) return yoke_last_error();
    const yoke_status status = sweep(device, p, 0, &with, &wrong);
    planted = NULL;
    yoke_device_close(device);
    yokei_text(text, bytes, "%s", wrong.text);
    if (status) return yoke_last_error();
    if (n_missing || !n_changed) return "nothing was planted";
    if (!with.n_fail) return "the sweep passed all the same";
    if (p->is_sought
        && (with.n_fail != 1 || strcmp(wrong.variant, p->variant)
            || strcmp(yoke_dtype_name(wrong.failed.dtype), p->dtype)))
        return "another line failed";
    if (wrong.failed.status) return "the op ended with an error, which is not what was planted";
    if (sweep(sound, p, wrong.failed.case_number, &without, &right)) return yoke_last_error();
    return without.n_fail || without.n_pass != 1 ? "the sound kernel does not pass that case" : NULL;
}

/* ---- errors that the device names ---- */

struct named { /* what a child says */
    int case_number;
    char text[1400], why[400];
};

/* Run the sweep with the error in a child, which loses its CUDA context. */
static void sweep_in_child(const char *spec, const struct plant *p, struct named *out)
{
    struct conform_summary with = { .n_fail = 0 };
    struct outcome wrong = { .variant = "" };
    yoke_device *device;
    planted = p;
    if (open_planted(spec, &device) || sweep(device, p, 0, &with, &wrong))
        yokei_text(out->why, sizeof out->why, "%s", yoke_last_error());
    else if (n_missing || !n_changed)
        yokei_text(out->why, sizeof out->why, "nothing was planted: %s", wrong.text);
    else if (!with.n_fail)
        yokei_text(out->why, sizeof out->why, "the sweep passed all the same");
    else if (!strstr(wrong.text, p->says))
        yokei_text(out->why, sizeof out->why, "the reason does not say '%s'", p->says);
    out->case_number = wrong.failed.case_number;
    yokei_text(out->text, sizeof out->text, "%s", wrong.text);
}

/* false: there is no such device. */
static bool run_child(const char *spec, const struct plant *p, struct named *out)
{
    int ends[2], status = -1;
    *out = (struct named){ .why = "the child ended early" };
    fflush(stdout);
    if (pipe(ends)) return true;
    const pid_t child = fork();
    if (!child) {
        yoke_device *device;
        struct named named = { .case_number = 0 };
        if (yoke_device_open(spec, NULL, &device) == YOKE_ENODEV) _exit(2);
        yoke_device_close(device);
        sweep_in_child(spec, p, &named);
        _exit(write(ends[1], &named, sizeof named) != (ssize_t)sizeof named);
    }
    close(ends[1]);
    struct named got;
    if (read(ends[0], &got, sizeof got) == (ssize_t)sizeof got) *out = got;
    close(ends[0]);
    if (child > 0) waitpid(child, &status, 0);
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 2);
}

static int n_tests, n_bad;

static void report(const char *name, const char *why, const char *text)
{
    printf("%sok %d - caught: %s%s%s\n# %s\n", why ? "not " : "", ++n_tests, name, why ? ": " : "",
           why ? why : "", text);
    fflush(stdout);
    n_bad += why != NULL;
}

static void plant_all(const char *spec, yoke_device *sound)
{
    const char *soak = getenv("YOKE_SOAK");
    const bool is_cuda = !strncmp(spec, "cuda", 4);
    const struct plant *list = is_cuda ? cuda_plants : plants;
    const size_t n = is_cuda ? YOKE_COUNT(cuda_plants) : YOKE_COUNT(plants);
    char text[1400];
    for (size_t i = 0; i < n; i++) {
        if (list[i].says || (list[i].soak && (!soak || !strcmp(soak, "0")))) continue;
        text[0] = '\0';
        const char *why = judge(spec, sound, &list[i], text, sizeof text);
        report(list[i].name, why, text);
    }
}

/* With the error the device names it. Without the error the same case passes. */
static void report_named(yoke_device *sound, const struct named named[])
{
    for (size_t i = 0; i < YOKE_COUNT(cuda_plants); i++) {
        const struct plant *p = &cuda_plants[i];
        struct conform_summary without = { .n_fail = 0 };
        struct outcome right;
        const char *why = named[i].why[0] ? named[i].why : NULL;
        if (!p->says) continue;
        if (!why && sweep(sound, p, named[i].case_number, &without, &right)) why = yoke_last_error();
        if (!why && (without.n_fail || without.n_pass != 1)) why = "the sound kernel does not pass that case";
        report(p->name, why, named[i].text);
    }
}

int main(int argc, char **argv)
{
    static struct named named[YOKE_COUNT(cuda_plants)];
    yoke_device *sound;
    const char *spec = argc > 1 ? argv[1] : "opencl:0";
    const bool is_cuda = !strncmp(spec, "cuda", 4);
    /* The children come first: a process that has opened a device of CUDA does not fork. */
    for (size_t i = 0; i < YOKE_COUNT(cuda_plants) && is_cuda; i++)
        if (cuda_plants[i].says && !run_child(spec, &cuda_plants[i], &named[i])) break;
    const yoke_status status = yoke_device_open(spec, NULL, &sound);
    if (status) {
        printf("%sok 1 - planted kernels on %s%s%s\n1..1\n", status == YOKE_ENODEV ? "" : "not ", spec,
               status == YOKE_ENODEV ? " # SKIP " : ": ", yoke_last_error());
        return status != YOKE_ENODEV;
    }
    plant_all(spec, sound);
    if (is_cuda) report_named(sound, named);
    yoke_device_close(sound);
    printf("1..%d\n", n_tests);
    return n_bad > 0;
}
