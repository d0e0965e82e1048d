#error "libuv is seen by src/port/uv only: use port/*.h"
