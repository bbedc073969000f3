/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Products of matrices on the memory of a stand-in driver, for stand-ins of the vendors' libraries: cuBLASLt,
 * rocBLAS and hipBLASLt. A product is a command of its stream. The operands are read when the command runs,
 * and each byte is checked. Matrices are stored by columns.
 */
#ifndef EMULATE_GPU_PRODUCT_H
#define EMULATE_GPU_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The types of matrices. The numbers are those of cudaDataType and hipDataType. */
enum product_type { PRODUCT_F32 = 0, PRODUCT_F16 = 2, PRODUCT_BF16 = 14 };
size_t product_type_bytes(int type); /* 0: no type of a matrix here */

/** The functions of the stand-in driver that a library calls (emulate/gpu/emulate.h). */
struct product_driver {
    int (*enqueue)(void *stream, const char *name, int (*run)(void *user, char *text, size_t text_bytes),
                   void (*release)(void *user), void *user);
    void *(*bytes)(uint64_t address, size_t bytes, int writes, const char *what, char *text,
                   size_t text_bytes);
    int (*fails)(const char *failure);
};
/** A function of the driver of this name, or NULL if the driver is not loaded. It is never loaded here. */
void *product_symbol(const char *library, const char *name);
/** false if the driver is not loaded. */
bool product_driver_find(const char *library, struct product_driver *driver_out);

/*
 * For the opaque structs of the libraries: set a member from the value of an attribute, which has one size,
 * and give an object to the caller. false: the value has another size, or the object could not be made.
 */
bool product_set(void *member, size_t member_bytes, const void *value, size_t bytes);
bool product_give(void *object, void *object_out);

struct product_layout {
    int type;
    uint64_t rows, columns;
    int64_t ld;
    int32_t batch;
    int64_t stride; /* elements from a matrix of the batch to the next one */
};

/** op(A) is m x k, op(B) is k x n. */
struct product_shape {
    int64_t m, n, k;
    bool trans_a, trans_b;
    const struct product_layout *a, *b, *c, *d;
};
enum product_fit { PRODUCT_FITS, PRODUCT_WRONG, PRODUCT_UNSUPPORTED };
/** Check that the layouts fit together, and fill m, n and k. */
enum product_fit product_shape_check(struct product_shape *shape);

/** How the f32 bias of a 16-bit result is added. */
enum product_bias {
    PRODUCT_BIAS_ONCE,  /* the sum is rounded once */
    PRODUCT_BIAS_TWICE, /* the product is rounded before */
    PRODUCT_BIAS_SHORT, /* the bias is rounded before */
};

/** D = alpha op(A) op(B) + beta C, and a bias for each row. */
struct product {
    const struct product_driver *driver;
    const char *name; /* of the call, which is also the name of the launch in the counts */
    int64_t m, n, k;
    bool trans_a, trans_b;
    struct product_layout a, b, c, d;
    uint64_t a_at, b_at, c_at, d_at; /* addresses */
    float alpha, beta;
    uint64_t bias_at; /* 0: there is none */
    int bias_type;
    enum product_bias bias_rounding;
    /* How it is computed. */
    int block;      /* the products that a matrix unit adds at a time; 0: no matrix units */
    bool shorten;   /* f32 operands are cut to 10 bits, as TF32 has */
    bool flush;     /* subnormal numbers in 16 bits count as zeros, as on AMD's MI200 */
    int parts;      /* the sum is split along K */
    bool backwards; /* the parts are added from the last one on */
    bool in_f32;    /* the parts are added in f32, in the workspace; otherwise in the result's type */
    uint64_t workspace;
};
/** Queue a product. The description is copied. Returns 0, or an error of the driver. */
int product_enqueue(const struct product *product, void *stream);

/**
 * One element: the sum of the products of a[i] and b[i]. `block` products at a time are added with the sum as
 * matrix units do it: all are shifted to the greatest exponent, and cut off. 0: each sum is rounded to
 * nearest.
 */
float product_dot(const float *a, const float *b, int64_t n, int block);

#endif
