/* SPDX-License-Identifier: Apache-2.0 */
/**
 * hipBLASLt, AMD's newer library of matrix products: its file, the handle of a device, and products by it.
 * products.c chooses between it and rocBLAS.
 *
 * The library's heuristic ranks its algorithms. Yoke takes the first one that passes a trial. An algorithm is
 * a number, which is valid for one version of the library. The interface for C makes no algorithm from its
 * number, so an algorithm that a tuning file names is looked for among those of the heuristic.
 *
 * As in rocBLAS, matrices are stored by columns, so the library's first operand is Yoke's B. The library adds
 * no bias here: it would round a bias to the type of the result.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/hip/products.h"

enum { MOST_ALGORITHMS = 16, MOST_TRIALS = 64, OLDEST = 600, NEWEST = 199999 };

/* As in AMD's headers of ROCm 6 and 7. */
_Static_assert(sizeof(hipblasLtMatmulAlgo_t) == 16 + sizeof(size_t), "an algorithm has 24 bytes");
_Static_assert(sizeof(hipblasLtMatmulHeuristicResult_t) == 40 + 2 * sizeof(size_t), "a result has 56 bytes");

static struct hip_hipblaslt hipblaslt;
static pthread_mutex_t hipblaslt_lock = PTHREAD_MUTEX_INITIALIZER;

static bool open_file(const char *folder, const char *name, char *why, size_t bytes)
{
/* clang-format off */
#define SYMBOL(result, name, parameters) { #name, &hipblaslt.name },
    /* clang-format on */
    static const struct yokei_symbol symbols[] = { YOKEI_HIPBLASLT_FUNCTIONS(SYMBOL) };
#undef SYMBOL
    return yokei_folders_open_file(folder, name, hipblaslt.path, symbols, YOKE_COUNT(symbols), why, bytes)
           != NULL;
}

/* The versions of ROCm 7 and 6. */
static const struct yokei_library_file names[] = { { "libhipblaslt.so.1", 7 }, { "libhipblaslt.so.0", 6 } };
static struct hip_product_file file = {
    .name = "hipBLASLt",
    .variable = "YOKE_HIPBLASLT",
    .package = "hipblaslt",
    .emulated = "libhipblaslt-emulated.so.0",
    .files = names,
    .n_files = YOKE_COUNT(names),
    .open = open_file,
};

static const char *status_name(hipblasStatus_t status)
{
    static const char *const words[] = { "success",        "not initialised", "allocation failed",
                                         "invalid value",  "mapping error",   "execution failed",
                                         "internal error", "not supported",   "another architecture" };
    return status >= 0 && (size_t)status < YOKE_COUNT(words) ? words[status] : "an unlisted error";
}

/* ---- describing a product ---- */

/* What AMD's documents do not say of the library. Such products are left to others. */
static const char *left_out(const struct yokei_product_key *k)
{
    const int64_t most = YOKE_MAX(YOKE_MAX(YOKE_MAX(k->M, k->N), YOKE_MAX(k->K, k->batch)),
                                  YOKE_MAX(YOKE_MAX(k->lda, k->ldb), k->ldc));
    if (most > INT32_MAX) return "it has only sizes below 2^31";
    if ((k->align_a & k->align_b & k->align_c) != YOKEI_PRODUCT_ALIGNED)
        return "it does not say how addresses must be aligned, and these are no multiples of 16";
    if (k->batch > 1 && (!k->stride_a || !k->stride_b))
        return "it does not say whether the products of a batch may share a matrix";
    return k->with_bias ? "it rounds the bias to the type of the result" : NULL;
}

static bool describe(const yoke_device *device, struct yokei_product_entry *e)
{
    const struct hip_hipblaslt *lt = hip_device(device)->lt;
    const char *why = left_out(&e->key);
    struct hip_lt_product *made = why ? NULL : calloc(1, sizeof *made);
    e->made = made;
    if (!made) {
        yokei_text(e->reason, sizeof e->reason, "%s", why ? why : "no host memory");
        return false;
    }
    const hipblasStatus_t status = yokei_hip_lt_describe(lt, &e->key, made);
    if (status) yokei_text(e->reason, sizeof e->reason, "%s (%d)", status_name(status), status);
    return !status;
}

static void clear(const yoke_device *device, struct yokei_product_entry *e)
{
    if (!e->made) return;
    yokei_hip_lt_clear(hip_device(device)->lt, e->made);
    free(e->made);
    e->made = NULL;
}

/* ---- choosing the algorithm ---- */

/* The newest trials of a device. */
struct hip_lt_trials {
    struct {
        int64_t dtype, out_dtype, trans_a, trans_b, M, N, K;
        int number;
        const char *refused; /* NULL: it has passed */
    } trials[MOST_TRIALS];
    int64_t n;    /* all that were made */
    bool said[2]; /* a refusal of the heuristic, and a failed trial */
};

static int number_of(const hipblasLtMatmulAlgo_t *algorithm)
{
    int number;
    memcpy(&number, algorithm->data, sizeof number);
    return number;
}

static void algorithm_text(const struct hip_device *dev, int number, char *text, size_t bytes)
{
    yokei_text(text, bytes, "algo=%d,version=%d", number, dev->lt_number);
}

static bool parse(const char *text, int *number, int *version)
{
    char again[64];
    if (sscanf(text, "algo=%9d,version=%9d", number, version) != 2) return false;
    yokei_text(again, sizeof again, "algo=%d,version=%d", *number, *version);
    return !strcmp(text, again);
}

static bool is_algorithm(const char *text)
{
    int number, version;
    return parse(text, &number, &version);
}

/* Say once on a device why other code multiplies than hipBLASLt. */
static void say(const yoke_device *device, bool trial, const struct yokei_product_key *k, const char *why)
{
    struct hip_device *dev = hip_device(device);
    if (dev->lt_trials->said[trial]) return;
    dev->lt_trials->said[trial] = true;
    yoke_log(
        trial ? YOKE_LOG_WARN : YOKE_LOG_INFO,
        "%s: hipBLASLt %s does not multiply M %lld N %lld K %lld: %s. rocBLAS or Yoke's kernel does. This is "
        "said once",
        device->info.spec, dev->lt_version, (long long)k->M, (long long)k->N, (long long)k->K, why);
}

static const char *trial_of(const yoke_device *device, const struct yokei_product_key *k,
                            const hipblasLtMatmulHeuristicResult_t *result)
{
    const struct hip_device *dev = hip_device(device);
    struct hip_lt_trials *t = dev->lt_trials;
    const int number = number_of(&result->algo);
    for (int64_t i = 0; i < YOKE_MIN(t->n, MOST_TRIALS); i++)
        if (t->trials[i].number == number && t->trials[i].dtype == k->dtype
            && t->trials[i].out_dtype == k->out_dtype && t->trials[i].trans_a == k->trans_a
            && t->trials[i].trans_b == k->trans_b && t->trials[i].M == k->M && t->trials[i].N == k->N
            && t->trials[i].K == k->K)
            return t->trials[i].refused;
    const char *refused = yokei_hip_lt_refused(dev, k, &result->algo, result->workspaceSize);
    const int64_t at = t->n++ % MOST_TRIALS;
    t->trials[at].dtype = k->dtype, t->trials[at].out_dtype = k->out_dtype;
    t->trials[at].trans_a = k->trans_a, t->trials[at].trans_b = k->trans_b;
    t->trials[at].M = k->M, t->trials[at].N = k->N, t->trials[at].K = k->K;
    t->trials[at].number = number, t->trials[at].refused = refused;
    if (refused) {
        char why[200];
        yokei_text(why, sizeof why, "its algorithm %d %s", number, refused);
        say(device, true, k, why);
    }
    return refused;
}

static hipblasStatus_t ask_heuristic(const struct hip_device *dev, const struct yokei_product_entry *e,
                                     uint64_t workspace,
                                     hipblasLtMatmulHeuristicResult_t results[MOST_ALGORITHMS], int *n_out)
{
    const struct hip_hipblaslt *lt = dev->lt;
    const struct hip_lt_product *m = e->made;
    hipblasLtMatmulPreference_t p;
    hipblasStatus_t status = lt->hipblasLtMatmulPreferenceCreate(&p);
    if (status) return status;
    status = lt->hipblasLtMatmulPreferenceSetAttribute(p, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                       &workspace, sizeof workspace);
    memset(results, 0, MOST_ALGORITHMS * sizeof *results);
    if (!status)
        status = lt->hipblasLtMatmulAlgoGetHeuristic(dev->lt_handle, m->desc, m->first, m->second, m->result,
                                                     m->result, p, MOST_ALGORITHMS, results, n_out);
    lt->hipblasLtMatmulPreferenceDestroy(p);
    return status;
}

static void take(const struct hip_device *dev, struct yokei_product_entry *e,
                 const hipblasLtMatmulHeuristicResult_t *result)
{
    struct hip_lt_product *m = e->made;
    m->algo = result->algo;
    e->workspace_bytes = result->workspaceSize;
    algorithm_text(dev, number_of(&result->algo), e->algorithm, sizeof e->algorithm);
}

static void take_ranked(const yoke_device *device, struct yokei_product_entry *e, uint64_t workspace)
{
    const struct hip_device *dev = hip_device(device);
    hipblasLtMatmulHeuristicResult_t results[MOST_ALGORITHMS];
    const int64_t wanted = e->key.variant - (dev->blas != NULL);
    const char *why = "its heuristic names no algorithm";
    int n = 0, rank = 0;
    const hipblasStatus_t status = ask_heuristic(dev, e, workspace, results, &n);
    for (int i = 0; i < n && !status; i++) {
        if (results[i].state || results[i].workspaceSize > workspace) continue;
        const char *refused = trial_of(device, &e->key, &results[i]);
        if (!refused && rank++ == wanted) {
            take(dev, e, &results[i]);
            return;
        }
        if (refused) why = refused;
    }
    if (status)
        yokei_text(e->reason, sizeof e->reason, "its heuristic refuses the product: %s (%d)",
                   status_name(status), status);
    else if (rank)
        yokei_text(e->reason, sizeof e->reason, "it has only %d algorithm%s for this product", rank,
                   rank == 1 ? "" : "s");
    else
        yokei_text(e->reason, sizeof e->reason, "none of its %d algorithms is usable: the last one %s", n,
                   why);
    if (!rank) say(device, false, &e->key, e->reason);
}

static bool adopt(const yoke_device *device, struct yokei_product_entry *e, const char *algorithm,
                  uint64_t workspace, char *why, size_t bytes)
{
    const struct hip_device *dev = hip_device(device);
    hipblasLtMatmulHeuristicResult_t results[MOST_ALGORITHMS];
    int number, version, n = 0;
    yokei_text(why, bytes, "it is not among the first %d of the heuristic", (int)MOST_ALGORITHMS);
    if (!parse(algorithm, &number, &version)) {
        yokei_text(why, bytes, "'%.60s' is no algorithm of hipBLASLt", algorithm);
        return false;
    }
    if (version != dev->lt_number) {
        yokei_text(why, bytes, "it is one of version %d, and this is version %d", version, dev->lt_number);
        return false;
    }
    const hipblasStatus_t status = ask_heuristic(dev, e, workspace, results, &n);
    if (status) yokei_text(why, bytes, "the heuristic refuses the product: %s", status_name(status));
    for (int i = 0; i < n && !status; i++) {
        if (results[i].state || results[i].workspaceSize > workspace || number_of(&results[i].algo) != number)
            continue;
        const char *refused = trial_of(device, &e->key, &results[i]);
        if (!refused) {
            take(dev, e, &results[i]);
            return true;
        }
        yokei_text(why, bytes, "it %s", refused);
        break;
    }
    return false;
}

/* ---- the interface ---- */

static yoke_status issue(yoke_stream *stream, const struct yoke_gemm_args *a,
                         const struct yokei_product_entry *e, void *workspace)
{
    const struct hip_device *dev = hip_device(stream->device);
    const struct hip_lt_product *m = e->made;
    const hipblasStatus_t status = dev->lt->hipblasLtMatmul(
        dev->lt_handle, m->desc, &a->alpha, a->b, m->first, a->a, m->second, &a->beta, a->c, m->result, a->c,
        m->result, &m->algo, workspace, e->workspace_bytes, yokei_rt_stream(stream)->queue);
    if (!status) return YOKE_OK;
    return yoke_fail(YOKE_EBACKEND,
                     "%s: gemm by hipBLASLt %s: hipblasLtMatmul of M %lld N %lld K %lld failed: %s (%d)",
                     stream->device->info.spec, dev->lt_version, (long long)a->M, (long long)a->N,
                     (long long)a->K, status_name(status), status);
}

const struct yokei_product_calls yokei_hip_hipblaslt_calls = {
    .describe = describe,
    .clear = clear,
    .adopt = adopt,
    .take_ranked = take_ranked,
    .is_algorithm = is_algorithm,
    .issue = issue,
};

/* ---- the device ---- */

int yokei_hip_lt_oldest_version(const char *arch)
{
    static const struct {
        const char *begin;
        int version;
    } rows[] = {
        { "gfx90a", 600 }, { "gfx94", 600 }, { "gfx110", 800 }, { "gfx95", 100000 }, { "gfx120", 100000 }
    };
    for (size_t i = 0; i < YOKE_COUNT(rows); i++)
        if (!strncmp(arch, rows[i].begin, strlen(rows[i].begin))) return rows[i].version;
    return 0;
}

/* Whether this version of the library can be used. Otherwise the reason stands in dev->lt_reason. */
static bool version_suits(struct hip_device *dev)
{
    const int number = dev->lt_number;
    yokei_text(dev->lt_version, sizeof dev->lt_version, "%d.%d.%d", number / 100000, number / 100 % 1000,
               number % 100);
    if (number < OLDEST || number > NEWEST)
        yokei_text(dev->lt_reason, sizeof dev->lt_reason,
                   "%s is hipBLASLt %s, and Yoke knows 0.6 to 1: install that of ROCm 6 or 7", hipblaslt.path,
                   dev->lt_version);
    else if (number < yokei_hip_lt_oldest_version(dev->arch))
        yokei_text(dev->lt_reason, sizeof dev->lt_reason, "hipBLASLt %s has no products for %s",
                   dev->lt_version, dev->arch);
    return !dev->lt_reason[0];
}

/*
 * HIP 5 has a hipBLASLt with other numbers. On a GPU that the library does not know, nothing shall depend on
 * how its start ends. So the library is not loaded there.
 */
static bool device_suits(struct hip_device *dev)
{
    if (dev->hip->numbers->major < 6)
        yokei_text(dev->lt_reason, sizeof dev->lt_reason,
                   "Yoke uses hipBLASLt from ROCm 6 on, and this is HIP %d", dev->hip->numbers->major);
    else if (!yokei_hip_lt_oldest_version(dev->arch))
        yokei_text(dev->lt_reason, sizeof dev->lt_reason, "hipBLASLt has no products for %s", dev->arch);
    return !dev->lt_reason[0];
}

bool yokei_hip_hipblaslt_attach(yoke_device *device)
{
    struct hip_device *dev = hip_device(device);
    if (!device_suits(dev)) return false;
    pthread_mutex_lock(&hipblaslt_lock);
    const bool opens = yokei_hip_product_file_open(&file, dev->hip, dev->lt_reason, sizeof dev->lt_reason);
    pthread_mutex_unlock(&hipblaslt_lock);
    if (!opens) return false;
    const hipblasStatus_t status = hipblaslt.hipblasLtCreate(&dev->lt_handle);
    if (status) {
        yokei_text(dev->lt_reason, sizeof dev->lt_reason,
                   "hipBLASLt (%s) does not start: hipblasLtCreate failed: %s (%d)", hipblaslt.path,
                   status_name(status), status);
        return false;
    }
    if (hipblaslt.hipblasLtGetVersion(dev->lt_handle, &dev->lt_number)) dev->lt_number = 0;
    dev->lt_reason[0] = '\0';
    dev->lt_trials = calloc(1, sizeof *dev->lt_trials);
    if (!dev->lt_trials) yokei_text(dev->lt_reason, sizeof dev->lt_reason, "no host memory for hipBLASLt");
    dev->lt = &hipblaslt;
    if (dev->lt_trials && version_suits(dev)) return true;
    yokei_hip_hipblaslt_detach(device, true);
    return false;
}

void yokei_hip_hipblaslt_detach(yoke_device *device, bool entered)
{
    struct hip_device *dev = hip_device(device);
    if (dev->lt && entered) dev->lt->hipblasLtDestroy(dev->lt_handle);
    free(dev->lt_trials);
    dev->lt_trials = NULL;
    dev->lt = NULL;
}
