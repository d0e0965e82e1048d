/* One codec each; zip.c chooses. Contracts as in wire/zip.h. Private to the room. */
#pragma once

#include "wire/zip.h"

err zip_gzip_unpack(span in, size_t max, struct arena *a, span *ret_out);
err zip_gzip_pack(span in, struct arena *a, span *ret_out);
err zip_snappy_unpack(span in, size_t max, struct arena *a, span *ret_out);
err zip_snappy_pack(span in, struct arena *a, span *ret_out);
err zip_lz4_unpack(span in, size_t max, struct arena *a, span *ret_out);
err zip_lz4_pack(span in, struct arena *a, span *ret_out);
err zip_zstd_unpack(span in, size_t max, struct arena *a, span *ret_out);
err zip_zstd_pack(span in, struct arena *a, span *ret_out);
