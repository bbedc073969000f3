/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/manual_text.h"

#include <ctype.h>
#include <string.h>

#include "core/base/base.h"

const char *cli_manual_text_of(const char *verb)
{
    for (const struct cli_manual_text *t = cli_manual_texts; t->name; t++) {
        size_t i = 0;
        while (verb[i] && t->name[i] == (verb[i] == ' ' ? '-' : verb[i])) i++;
        if (!verb[i] && !t->name[i]) return t->text;
    }
    return "";
}

static enum cli_block_kind kind_of_block(const char *line, size_t length)
{
    bool small = false;
    for (size_t i = 0; i < length; i++) small = small || islower((unsigned char)line[i]);
    if (length > 1 && line[0] == ' ' && line[1] == ' ') return CLI_AS_IT_STANDS;
    if (length > 1 && line[0] == '-' && line[1] == ' ') return CLI_ITEM;
    return small || !isupper((unsigned char)line[0]) ? CLI_PARAGRAPH : CLI_HEADING;
}

bool cli_block_next(const char **at, struct cli_block *block)
{
    const char *line = *at;
    size_t used = 0;
    line += strspn(line, "\n");
    if (!*line) return false;
    block->kind = kind_of_block(line, strcspn(line, "\n"));
    for (bool first = true; *line && *line != '\n'; first = false) {
        const size_t length = strcspn(line, "\n");
        enum cli_block_kind kind = kind_of_block(line, length);
        if (!first && kind == CLI_HEADING)
            kind = CLI_PARAGRAPH; /* inside a paragraph, a line may be capitals */
        const bool indented = kind == CLI_AS_IT_STANDS;
        /* the later lines of an item are indented, and each further item is a block of its own */
        if (!first && (block->kind == CLI_ITEM ? !indented : kind != block->kind)) break;
        const size_t skip = indented || kind == CLI_ITEM ? 2 : 0;
        if (!first) block->text[used++] = block->kind == CLI_AS_IT_STANDS ? '\n' : ' ';
        const size_t room = sizeof block->text - 1 - used; /* the next line needs one more, for its blank */
        const size_t take = room ? YOKE_MIN(length - skip, room - 1) : 0;
        memcpy(block->text + used, line + skip, take);
        used += take;
        line += length + (line[length] == '\n');
        if (block->kind == CLI_HEADING) break;
    }
    block->text[used] = 0;
    *at = line;
    return true;
}
