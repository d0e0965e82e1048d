/* Offline look at a data or partition directory: `perigee log dump|verify`. Opens nothing for writing, takes no lock. */
#pragma once

#include <stdio.h>

#include "port/disk.h"

struct inspect_opts {
    bool records;                  /* dump: keys and values, not only batch headers */
    bool json;
};
/* dir is relative to the disk's root. Prints to out: lines for people, or with `json` an object per line. verify: DAMAGED when anything is wrong below the mark or an index disagrees; the line names
 * file and position. A live directory may lag its marks; a torn tail above the mark is reported, not an error. */
err inspect_dump(struct disk *disk, const char *dir, const struct inspect_opts *o, FILE *out);
err inspect_verify(struct disk *disk, const char *dir, bool json, FILE *out);
