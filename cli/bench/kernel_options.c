/* SPDX-License-Identifier: Apache-2.0 */
/* The operations, types and sizes of yoke tune and yoke bench kernels, as the user names them. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/sides.h"
#include "conform/trial.h"
#include "core/base/base.h"

/* ---- ops and types ---- */

static yoke_status select_ops(const struct cli_options *options, struct kernels_selection *out)
{
    struct conform_options wanted = CONFORM_OPTIONS_INIT;
    wanted.op = cli_text(options, "op");
    YOKE_TRY(conform_check_options(&wanted));
    for (int op = 0; op < YOKE_N_OPS; op++) out->op[op] = conform_selected(&wanted, (enum yoke_op_id)op);
    return YOKE_OK;
}

yoke_status kernels_select(const struct cli_options *options, struct kernels_selection *out)
{
    char text[64];
    *out = (struct kernels_selection){ .op = { false } };
    YOKE_TRY(select_ops(options, out));
    for (int i = 0; i < cli_list_count(options, "dtype"); i++) {
        yoke_dtype dtype;
        YOKE_TRY(yoke_dtype_parse(cli_list_item(options, "dtype", i, text, sizeof text), &dtype));
        out->dtype[dtype] = true;
    }
    if (!cli_list_count(options, "dtype"))
        out->dtype[YOKE_F32] = out->dtype[YOKE_F16] = out->dtype[YOKE_BF16] = true;
    return YOKE_OK;
}

/* ---- sizes ---- */

static int dim_named(const struct conform_sizes *sizes, const char *name, size_t length)
{
    for (int i = 0; sizes->dims[i]; i++)
        if (strlen(sizes->dims[i]) == length && !strncmp(sizes->dims[i], name, length)) return i;
    return -1;
}

/*
 * Read "N=512 C=768" over the operation's last size. False: the text has another form, or the operation has
 * no such dimension.
 */
static bool parse_dims(const char *text, const struct conform_sizes *sizes, struct conform_size *out)
{
    for (int i = 0; sizes->list[i].name; i++) *out = sizes->list[i];
    for (const char *p = text; *p; p += strspn(p, " ")) {
        const size_t length = strcspn(p, "=");
        const int dim = p[length] ? dim_named(sizes, p, length) : -1;
        char *end;
        const long long value = dim < 0 ? 0 : strtoll(p + length + 1, &end, 10);
        const bool flag = dim >= 0 && sizes->dims[dim][0] == 't'; /* the flags ta and tb */
        if (dim < 0 || end == p + length + 1 || (*end && *end != ' ') || value < !flag
            || value > (flag ? 1 : 1ll << 30))
            return false;
        out->dim[dim] = value;
        p = end;
    }
    out->name = "given";
    return true;
}

/* Whether a size's name is `text`, or begins with this word. */
static bool is_called(const char *name, const char *text)
{
    const size_t n = strlen(text);
    return n && !strncmp(name, text, n) && (!name[n] || name[n] == ' ');
}

static int sizes_of(const char *text, enum yoke_op_id op, struct conform_size *out, int room)
{
    const struct conform_sizes *sizes = conform_sizes_of(op);
    int n = 0;
    for (int i = 0; sizes->list[i].name && n < room; i++)
        if (is_called(sizes->list[i].name, text)) out[n++] = sizes->list[i];
    if (!n && room && strchr(text, '=')) n = parse_dims(text, sizes, &out[0]);
    return n;
}

int kernels_sizes(const struct cli_options *options, enum yoke_op_id op, const char *only,
                  const char *without, struct conform_size out[CONFORM_MAX_SIZES])
{
    char text[128];
    int n = 0;
    for (int i = 0; i < cli_list_count(options, "size"); i++)
        n += sizes_of(cli_list_item(options, "size", i, text, sizeof text), op, out + n,
                      CONFORM_MAX_SIZES - n);
    if (cli_list_count(options, "size")) return n;
    if (*only) return sizes_of(only, op, out, CONFORM_MAX_SIZES);
    const struct conform_size *all = conform_sizes_of(op)->list;
    for (int i = 0; all[i].name; i++)
        if (!is_called(all[i].name, without)) out[n++] = all[i];
    return n;
}

/* The number of sizes that the list names for an operation. kernels_sizes has room for CONFORM_MAX_SIZES. */
static int n_sizes(const struct cli_options *options, enum yoke_op_id op)
{
    struct conform_size some[CONFORM_MAX_SIZES];
    char text[128];
    int n = 0;
    for (int i = 0; i < cli_list_count(options, "size"); i++)
        n += sizes_of(cli_list_item(options, "size", i, text, sizeof text), op, some, CONFORM_MAX_SIZES);
    return n;
}

yoke_status kernels_check_sizes(const struct cli_options *options, const struct kernels_selection *selection)
{
    char text[128];
    struct conform_size size;
    for (int i = 0; i < cli_list_count(options, "size"); i++) {
        bool found = false;
        cli_list_item(options, "size", i, text, sizeof text);
        for (int op = 0; op < YOKE_N_OPS; op++)
            found |= selection->op[op] && sizes_of(text, (enum yoke_op_id)op, &size, 1) > 0;
        if (!found)
            return yoke_fail(
                YOKE_EINVAL,
                "size '%s': no op that was asked for has it; write tiny, micro, 124m, or dimensions such as 'N=512 C=768' "
                "(gemm: M N K batch ta tb; rows: N C; elements: n; attention: B T H G D)",
                text);
    }
    for (int op = 0; op < YOKE_N_OPS; op++)
        if (selection->op[op] && n_sizes(options, (enum yoke_op_id)op) > CONFORM_MAX_SIZES)
            return yoke_fail(
                YOKE_EINVAL,
                "--size names %d sizes of %s, and at most %d are measured at once: leave some of them out",
                n_sizes(options, (enum yoke_op_id)op), yokei_op_names[op], CONFORM_MAX_SIZES);
    return YOKE_OK;
}
