/* Intrusive doubly linked list with a sentinel. A node not on a list points to itself. */
#pragma once

#include "base/types.h"

struct list {
    struct list *next, *prev;
};

#define list_entry(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define list_each(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)
/* The body may remove `it`. */
#define list_each_safe(it, head)                                                                    \
    for (struct list *it = (head)->next, *it##_next = it->next; it != (head);                       \
         it = it##_next, it##_next = it->next)

static inline void list_init(struct list *l) { l->next = l->prev = l; }
static inline bool list_empty(const struct list *l) { return l->next == l; }
static inline void list_insert_after(struct list *at, struct list *n) {
    n->next = at->next;
    n->prev = at;
    at->next->prev = n;
    at->next = n;
}
static inline void list_push_back(struct list *head, struct list *n) { list_insert_after(head->prev, n); }
static inline void list_push_front(struct list *head, struct list *n) { list_insert_after(head, n); }
static inline void list_remove(struct list *n) {
    n->prev->next = n->next;
    n->next->prev = n->prev;
    n->next = n->prev = n;
}
/* First node taken off, or NULL. */
static inline struct list *list_pop_front(struct list *head) {
    struct list *n = head->next;
    if (n == head) {
        return NULL;
    }
    list_remove(n);
    return n;
}
/* Move all of src to the end of dst; src is left empty. */
static inline void list_splice_back(struct list *dst, struct list *src) {
    if (list_empty(src)) {
        return;
    }
    src->next->prev = dst->prev;
    dst->prev->next = src->next;
    src->prev->next = dst;
    dst->prev = src->prev;
    list_init(src);
}
