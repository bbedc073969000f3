/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every unit test includes this header. It has cmocka, and assertions on Yoke's statuses that print the error
 * text.
 */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <yoke/yoke.h>

/** Assert that `call` succeeds. If it fails, the test fails with Yoke's error text. */
#define assert_ok(call)                                                                         \
    do {                                                                                        \
        const yoke_status assert_status_ = (call);                                              \
        if (assert_status_)                                                                     \
            fail_msg("%s: %s: %s", #call, yoke_status_name(assert_status_), yoke_last_error()); \
    } while (0)

/** Assert that `call` fails with `status`, and that the error text contains `words` (NULL: any text). */
#define assert_fails(status, words, call)                                                           \
    do {                                                                                            \
        const yoke_status assert_status_ = (call);                                                  \
        if (assert_status_ != (status))                                                             \
            fail_msg("%s: %s instead of %s (%s)", #call, yoke_status_name(assert_status_), #status, \
                     yoke_last_error());                                                            \
        const char *assert_words_ = (words);                                                        \
        if (assert_words_ && !strstr(yoke_last_error(), assert_words_))                             \
            fail_msg("%s: the error text '%s' does not contain '%s'", #call, yoke_last_error(),     \
                     assert_words_);                                                                \
    } while (0)

#endif
