/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/diagnose/events.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/diagnose/packed.h"
#include "core/base/base.h"

enum { PIECE = 1 << 18, LONGEST = 1 << 20, DEEPEST = 1 << 20 };

enum state { BEGIN, KEY, COLON, VALUE, EVENTS, END };

struct scanner {
    const char *path;
    diagnose_visit *visit;
    void *context;
    enum state state;
    bool is_list;          /* the file is a list of events */
    bool in_value;         /* a value or a key has begun */
    bool in_text, escaped; /* inside a string */
    int depth;             /* of lists and objects inside the value */
    bool in_events;        /* the values are elements of traceEvents */
    char key[64];
    char *text; /* [LONGEST + 1] the value so far */
    size_t n;
    bool is_long; /* the value is above the limit */
    bool is_torn;
    int64_t n_events, n_bad, n_long;
};

static void keep(struct scanner *s, char c)
{
    if (s->n < LONGEST)
        s->text[s->n++] = c;
    else
        s->is_long = true;
}

static void fail(struct scanner *s)
{
    s->is_torn = true;
    s->in_value = false;
    s->state = END;
}

/* The number of bytes of a character of UTF-8 that begins here. 0: none does. */
static size_t character(const char *text, size_t n)
{
    const unsigned char c = (unsigned char)*text;
    const size_t bytes = c < 0x80                ? 1
                         : c >= 0xc2 && c < 0xe0 ? 2
                         : c >= 0xe0 && c < 0xf0 ? 3
                         : c >= 0xf0 && c < 0xf5 ? 4
                                                 : 0;
    if (!bytes || bytes > n) return 0;
    for (size_t i = 1; i < bytes; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80) return 0;
    return bytes;
}

/* A value whose text may be of another encoding: what is no UTF-8 becomes question marks. */
static json_t *load(struct scanner *s)
{
    json_error_t error;
    json_t *value = json_loadb(s->text, s->n, JSON_DECODE_ANY, &error);
    size_t changed = 0;
    for (size_t i = 0; i < s->n && !value;) {
        const size_t bytes = character(s->text + i, s->n - i);
        if (!bytes) s->text[i] = '?', changed++;
        i += bytes ? bytes : 1;
    }
    return value || !changed ? value : json_loadb(s->text, s->n, JSON_DECODE_ANY, &error);
}

/* The value is complete. */
static yoke_status finish(struct scanner *s)
{
    yoke_status status = YOKE_OK;
    s->text[s->n] = '\0';
    if (!s->in_events) s->state = KEY; /* after another value at the top, a key comes */
    json_t *value = s->is_long ? NULL : load(s);
    s->n_long += s->is_long;
    s->n_bad += !value && !s->is_long;
    if (value) {
        s->n_events += s->in_events;
        status = s->visit(s->context, s->in_events ? NULL : s->key, value);
        json_decref(value);
    }
    s->n = 0;
    s->in_value = s->is_long = false;
    return status;
}

/* A character of a value. *again_out: the character comes after the value, and is still to be looked at. */
static yoke_status value_goes_on(struct scanner *s, char c, bool *again_out)
{
    *again_out = false;
    if (s->in_text) {
        keep(s, c);
        if (s->escaped)
            s->escaped = false;
        else if (c == '\\')
            s->escaped = true;
        else if (c == '"')
            s->in_text = false;
        return !s->in_text && !s->depth ? finish(s) : YOKE_OK;
    }
    if (!s->depth && (c == ',' || c == '}' || c == ']' || isspace((unsigned char)c))) { /* behind a number */
        *again_out = true;
        return finish(s);
    }
    keep(s, c);
    if (c == '"') s->in_text = true;
    if ((c == '{' || c == '[') && ++s->depth > DEEPEST) fail(s);
    if ((c == '}' || c == ']') && --s->depth == 0) return finish(s);
    return YOKE_OK;
}

static void begin_value(struct scanner *s, char c)
{
    s->in_value = true;
    s->n = 0;
    keep(s, c);
    s->in_text = c == '"';
    s->depth = c == '{' || c == '[';
}

static yoke_status key_is_complete(struct scanner *s)
{
    yokei_text(s->key, sizeof s->key, "%.*s", (int)YOKE_MIN(s->n, (size_t)60), s->text);
    s->n = 0;
    s->in_value = false;
    s->state = COLON;
    return YOKE_OK;
}

static yoke_status take(struct scanner *s, char c)
{
    bool again;
    if (s->state == KEY && s->in_value) { /* the text of a key, without its quotation marks */
        if (c == '"' && !s->escaped) return key_is_complete(s);
        s->escaped = c == '\\' && !s->escaped;
        keep(s, c);
        return YOKE_OK;
    }
    if (s->in_value) {
        YOKE_TRY(value_goes_on(s, c, &again));
        if (!again) return YOKE_OK;
    }
    if (isspace((unsigned char)c) || c == ',' || s->state == END) return YOKE_OK;
    switch (s->state) {
    case BEGIN:
        s->is_list = s->in_events = c == '[';
        s->state = c == '[' ? EVENTS : KEY;
        if (c != '[' && c != '{') fail(s);
        break;
    case KEY:
        if (c == '"')
            s->in_value = true, s->escaped = false;
        else if (c == '}')
            s->state = END;
        else
            fail(s);
        break;
    case COLON:
        if (c == ':')
            s->state = VALUE;
        else
            fail(s);
        break;
    case VALUE:
        if (c == '[' && !strcmp(s->key, "traceEvents")) {
            s->in_events = true;
            s->state = EVENTS;
        } else {
            begin_value(s, c);
        }
        break;
    case EVENTS:
        if (c == ']') {
            s->in_events = false;
            s->state = s->is_list ? END : KEY;
        } else {
            begin_value(s, c);
        }
        break;
    default: break;
    }
    return YOKE_OK;
}

/* Why events may be missing at the end. The list of events need not be closed. */
static const char *torn(const struct scanner *s, const char *damage)
{
    const bool is_open = s->state == EVENTS && s->is_list && !s->in_value;
    if (damage) return damage;
    return s->is_torn || (s->state != END && !is_open) ? "it is torn" : NULL;
}

static yoke_status scan(struct scanner *s, struct diagnose_packed *file)
{
    char *piece = malloc(PIECE);
    yoke_status status = piece ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "%s: no memory to read it", s->path);
    size_t n = 1;
    bool is_first = true;
    while (!status && n) {
        status = diagnose_packed_read(file, piece, PIECE, &n);
        const bool marked = is_first && n >= 3 && !memcmp(piece, "\xef\xbb\xbf", 3); /* the mark of UTF-8 */
        for (size_t i = marked ? 3 : 0; i < n && !status; i++) status = take(s, piece[i]);
        is_first = false;
    }
    free(piece);
    return status;
}

yoke_status diagnose_events(const char *path, diagnose_visit *visit, void *context,
                            struct diagnose_ending *ending)
{
    struct scanner s = { .path = path, .visit = visit, .context = context, .text = malloc(LONGEST + 1) };
    struct diagnose_packed *file = NULL;
    if (!s.text) return yoke_fail(YOKE_ENOMEM, "%s: no memory to read it", path);
    yoke_status status = diagnose_packed_open(path, &file);
    if (!status) status = scan(&s, file);
    *ending = (struct diagnose_ending){ NULL, s.n_bad, s.n_long };
    if (!status) ending->torn = torn(&s, diagnose_packed_damage(file));
    if (!status && !s.n_events)
        status = yoke_fail(YOKE_EDATA,
                           "%s: it is no Chrome trace, because it has no list traceEvents with events%s%s",
                           path, ending->torn ? "; " : "", ending->torn ? ending->torn : "");
    diagnose_packed_close(file);
    free(s.text);
    return status;
}
