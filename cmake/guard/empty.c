/* A room without sources yet. */
extern int guard_empty;
int guard_empty;
