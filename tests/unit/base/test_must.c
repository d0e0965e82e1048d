/* Goal: a broken invariant stops the process, in every build, and says which. Method: a child whose standard error is a pipe. */
#include "base/must.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

START_TEST(true_condition_is_silent_and_evaluated_once) {
    int n = 0;
    must(++n == 1);
    ck_assert_int_eq(n, 1);
}
END_TEST

START_TEST(false_condition_aborts_and_names_itself) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        must(1 + 1 == 3);
        _exit(0);
    }
    close(ends[1]);
    char text[512] = {0};
    size_t n = 0;
    for (ssize_t got; n < sizeof text - 1 && (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0;) {
        n += (size_t)got;
    }
    close(ends[0]);
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    ck_assert_ptr_nonnull(strstr(text, "must: 1 + 1 == 3 at "));
    ck_assert_ptr_nonnull(strstr(text, "test_must.c:"));
}
END_TEST

int main(void) {
    return RUN("must", true_condition_is_silent_and_evaluated_once, false_condition_aborts_and_names_itself);
}
