/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with units: what is read, what is refused with advice, and what is written. */
#include "train/search/units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

/* A unit is 10^decimal * 2^binary of the base unit. The units of a quantity begin with the largest. */
struct unit {
    enum yokei_quantity quantity;
    const char *name;
    int decimal, binary;
    bool read_only; /* another unit is written */
};
/* clang-format off */
static const struct unit units[] = {
    { YOKEI_MEMORY, "TiB", 0, 40, false },    { YOKEI_MEMORY, "GiB", 0, 30, false },
    { YOKEI_MEMORY, "MiB", 0, 20, false },    { YOKEI_MEMORY, "KiB", 0, 10, false },
    { YOKEI_MEMORY, "B", 0, 0, false },
    { YOKEI_BANDWIDTH, "TB/s", 12, 0, false }, { YOKEI_BANDWIDTH, "GB/s", 9, 0, false },
    { YOKEI_BANDWIDTH, "MB/s", 6, 0, false },  { YOKEI_BANDWIDTH, "kB/s", 3, 0, false },
    { YOKEI_BANDWIDTH, "B/s", 0, 0, false },
    { YOKEI_BANDWIDTH, "Tbit/s", 12, -3, true }, { YOKEI_BANDWIDTH, "Gbit/s", 9, -3, true },
    { YOKEI_BANDWIDTH, "Mbit/s", 6, -3, true },  { YOKEI_BANDWIDTH, "kbit/s", 3, -3, true },
    { YOKEI_BANDWIDTH, "bit/s", 0, -3, true },
    { YOKEI_SECONDS, "s", 0, 0, false },      { YOKEI_SECONDS, "ms", -3, 0, false },
    { YOKEI_SECONDS, "us", -6, 0, false },    { YOKEI_SECONDS, "\xc2\xb5s", -6, 0, true },
    { YOKEI_SECONDS, "\xce\xbcs", -6, 0, true }, { YOKEI_SECONDS, "ns", -9, 0, false },
    { YOKEI_RATE, "PFLOP/s", 15, 0, false },  { YOKEI_RATE, "TFLOP/s", 12, 0, false },
    { YOKEI_RATE, "GFLOP/s", 9, 0, false },   { YOKEI_RATE, "MFLOP/s", 6, 0, false },
    { YOKEI_RATE, "kFLOP/s", 3, 0, false },   { YOKEI_RATE, "FLOP/s", 0, 0, false },
    { YOKEI_WORK, "PFLOP", 15, 0, false },    { YOKEI_WORK, "TFLOP", 12, 0, false },
    { YOKEI_WORK, "GFLOP", 9, 0, false },     { YOKEI_WORK, "MFLOP", 6, 0, false },
    { YOKEI_WORK, "kFLOP", 3, 0, false },     { YOKEI_WORK, "FLOP", 0, 0, false },
    { YOKEI_PRICE, "/h", 0, 0, false },
};
/* clang-format on */

static const struct {
    const char *unit, *example; /* the unit that advice uses, and an example for a text without a number */
} advice[] = {
    [YOKEI_MEMORY] = { "GiB", "80GiB" },  [YOKEI_BANDWIDTH] = { "GB/s", "400Gbit/s or 50GB/s" },
    [YOKEI_SECONDS] = { "us", "2us" },    [YOKEI_RATE] = { "TFLOP/s", "990TFLOP/s" },
    [YOKEI_WORK] = { "GFLOP", "1GFLOP" }, [YOKEI_PRICE] = { "/h", "2.10/h" },
};

/* Units that people write and that are refused, because they mean two things or another quantity. */
static const struct {
    enum yokei_quantity quantity;
    const char *name, *instead;
    const char *why;
} wrong_units[] = {
    { YOKEI_MEMORY, "GB", "GiB", "memory is counted in GiB (1024^3 bytes), not in GB (1000^3)" },
    { YOKEI_MEMORY, "MB", "MiB", "memory is counted in MiB (1024^2 bytes), not in MB (1000^2)" },
    { YOKEI_MEMORY, "TB", "TiB", "memory is counted in TiB (1024^4 bytes), not in TB (1000^4)" },
    { YOKEI_MEMORY, "KB", "KiB", "memory is counted in KiB (1024 bytes), not in KB (1000)" },
    { YOKEI_MEMORY, "kB", "KiB", "memory is counted in KiB (1024 bytes), not in kB (1000)" },
    { YOKEI_MEMORY, "Gbit", "GiB", "memory is counted in bytes" },
    { YOKEI_MEMORY, "G", "GiB", "the unit is not complete" },
    { YOKEI_MEMORY, "M", "MiB", "the unit is not complete" },
    { YOKEI_BANDWIDTH, "Gbps", "Gbit/s", "bits and bytes per second are written in full" },
    { YOKEI_BANDWIDTH, "Mbps", "Mbit/s", "bits and bytes per second are written in full" },
    { YOKEI_BANDWIDTH, "Gb/s", "Gbit/s", "'b' may mean bits or bytes" },
    { YOKEI_BANDWIDTH, "Mb/s", "Mbit/s", "'b' may mean bits or bytes" },
    { YOKEI_BANDWIDTH, "Gbit", "Gbit/s", "a bandwidth is per second" },
    { YOKEI_BANDWIDTH, "GB", "GB/s", "a bandwidth is per second" },
    { YOKEI_BANDWIDTH, "TB", "TB/s", "a bandwidth is per second" },
    { YOKEI_BANDWIDTH, "GiB/s", "GB/s", "bandwidth is counted in GB/s (1000^3 bytes)" },
    { YOKEI_BANDWIDTH, "GT/s", "GB/s", "transfers per second are no bytes per second" },
    { YOKEI_RATE, "TFLOPS", "TFLOP/s", "operations per second are written with /s" },
    { YOKEI_RATE, "GFLOPS", "GFLOP/s", "operations per second are written with /s" },
    { YOKEI_RATE, "PFLOPS", "PFLOP/s", "operations per second are written with /s" },
    { YOKEI_RATE, "TFLOPs", "TFLOP/s", "operations per second are written with /s" },
    { YOKEI_RATE, "TFLOP", "TFLOP/s", "a rate is per second" },
    { YOKEI_RATE, "GFLOP", "GFLOP/s", "a rate is per second" },
    { YOKEI_RATE, "T", "TFLOP/s", "the unit is not complete" },
    { YOKEI_RATE, "TOPS", "TFLOP/s", "rates are of floating-point operations" },
    { YOKEI_WORK, "GFLOP/s", "GFLOP", "work is not per second" },
    { YOKEI_WORK, "TFLOP/s", "TFLOP", "work is not per second" },
    { YOKEI_SECONDS, "u", "us", "the unit is not complete" },
    { YOKEI_SECONDS, "usec", "us", "the unit has another name" },
    { YOKEI_SECONDS, "sec", "s", "the unit has another name" },
    { YOKEI_PRICE, "/hour", "/h", "the unit has another name" },
    { YOKEI_PRICE, "/hr", "/h", "the unit has another name" },
};

/* The length of a decimal number at the start of a text: digits, a fraction, an exponent. 0: none. */
static size_t number_length(const char *text)
{
    size_t n = strspn(text, "0123456789");
    if (!n) return 0;
    if (text[n] == '.' && isdigit((unsigned char)text[n + 1])) n += 1 + strspn(text + n + 1, "0123456789");
    if (text[n] == 'e' || text[n] == 'E') {
        const size_t sign = text[n + 1] == '-' || text[n + 1] == '+';
        const size_t digits = strspn(text + n + 1 + sign, "0123456789");
        if (digits) n += 1 + sign + digits;
    }
    return n;
}

/*
 * The number of `length` bytes, times the unit. The decimal part of the unit is added to the exponent, so
 * that strtod rounds once. The command never sets a locale, so the decimal point is a point.
 */
static double scaled(const char *text, size_t length, const struct unit *unit)
{
    char copy[80];
    const size_t mantissa = strcspn(text, "eE");
    long exponent = unit->decimal;
    if (mantissa < length) { /* beyond these limits every number is 0 or infinite */
        const long written = strtol(text + mantissa + 1, NULL, 10);
        exponent += YOKE_MAX(YOKE_MIN(written, 10000), -10000);
    }
    yokei_text(copy, sizeof copy, "%.*se%ld", (int)YOKE_MIN(mantissa, length), text, exponent);
    return ldexp(strtod(copy, NULL), unit->binary);
}

static const struct unit *unit_of(enum yokei_quantity quantity, const char *name)
{
    for (size_t i = 0; i < YOKE_COUNT(units); i++)
        if (units[i].quantity == quantity && !strcmp(units[i].name, name)) return &units[i];
    return NULL;
}

static void refuse_unit(enum yokei_quantity q, const char *text, size_t length, const char *unit, char *why,
                        size_t bytes)
{
    const int n = (int)length;
    if (!*unit) {
        yokei_text(why, bytes, "has no unit; write %.*s%s or another unit", n, text, advice[q].unit);
        return;
    }
    for (size_t i = 0; i < YOKE_COUNT(wrong_units); i++)
        if (wrong_units[i].quantity == q && !strcmp(wrong_units[i].name, unit)) {
            yokei_text(why, bytes, "is refused: %s; write %.*s%s", wrong_units[i].why, n, text,
                       wrong_units[i].instead);
            return;
        }
    const char *names[YOKE_COUNT(units) + 1];
    char list[128] = "";
    size_t n_names = 0;
    for (size_t i = 0; i < YOKE_COUNT(units); i++) {
        if (units[i].quantity != q || units[i].name[0] & 0x80) continue;
        const size_t at = strlen(list);
        yokei_text(list + at, sizeof list - at, "%s%s", n_names ? ", " : "", units[i].name);
        names[n_names++] = units[i].name;
    }
    names[n_names] = NULL;
    const char *nearest = strlen(unit) < 16 ? yokei_nearest(unit, names) : NULL;
    if (nearest)
        yokei_text(why, bytes, "has the unknown unit '%.20s'; did you mean %.*s%s?", unit, n, text, nearest);
    else
        yokei_text(why, bytes, "has the unknown unit '%.20s'; the units are %s", unit, list);
}

bool yokei_unit_read(enum yokei_quantity quantity, const char *text, const double range[2], double *value_out,
                     char *why, size_t why_bytes)
{
    const size_t length = number_length(text);
    char least[40], most[40];
    if (!length || length > 40) {
        yokei_text(why, why_bytes,
                   text[0] == '-' && number_length(text + 1) ? "is negative; write a number such as %s"
                                                             : "is no number with a unit; write %s",
                   advice[quantity].example);
        return false;
    }
    const char *name = text + length;
    if (*name == ' ') name++;
    const struct unit *unit = unit_of(quantity, name);
    if (!unit) {
        refuse_unit(quantity, text, length, name, why, why_bytes);
        return false;
    }
    const double value = scaled(text, length, unit);
    if (!isfinite(value) || (range && !(value >= range[0] && value <= range[1]))) {
        if (range) {
            yokei_unit_write(quantity, range[0], least, sizeof least);
            yokei_unit_write(quantity, range[1], most, sizeof most);
            yokei_text(why, why_bytes,
                       "cannot be right: it must be from %s to %s; check the number and its unit", least,
                       most);
        } else
            yokei_text(why, why_bytes, "is too large");
        return false;
    }
    *value_out = value;
    return true;
}

void yokei_unit_write(enum yokei_quantity quantity, double value, char *text, size_t bytes)
{
    const struct unit *base = NULL;
    char number[40];
    for (size_t i = 0; i < YOKE_COUNT(units); i++) {
        const struct unit *u = &units[i];
        if (u->quantity != quantity || u->read_only) continue;
        base = u;
        const double in_unit = ldexp(value, -u->binary) / pow(10, u->decimal);
        if (in_unit >= 1 || (value == 0 && !u->decimal && !u->binary)) break;
    }
    if (!base) return;
    /* Bytes are whole, so a size that is not round is written in bytes. */
    const int most_digits = quantity == YOKEI_MEMORY ? 8 : 17;
    for (int digits = 6; digits <= most_digits; digits++) {
        yokei_text(number, sizeof number, "%.*g", digits,
                   ldexp(value, -base->binary) / pow(10, base->decimal));
        if (scaled(number, strlen(number), base) == value) {
            yokei_text(text, bytes, "%s%s", number, base->name);
            return;
        }
    }
    /* No text in this unit is exact, because the division was rounded. */
    for (size_t i = 0; i < YOKE_COUNT(units); i++)
        if (units[i].quantity == quantity && !units[i].decimal && !units[i].binary) base = &units[i];
    yokei_text(text, bytes, "%.17g%s", value, base->name);
}
