// SPDX-License-Identifier: MIT
/*
 * test_dap_data.c FOLDER - data breakpoints of `trapline dap`, where the debug registers fire. FOLDER, or the one
 * above it, has trapline. The process that is watched is a child of this test, whose variables have the same
 * names there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 120000 /* in an emulated machine */
#define MESSAGES_MAX 4096

volatile int watched_number;
volatile long other_number;

struct client {
	pid_t adapter;
	pid_t process;
	int in;
	int out;
	int seq;
	char *bytes;
	size_t count;
	json_t *message[MESSAGES_MAX];
	size_t messages;
};

static char trapline[4096];

static __attribute__((noipa)) void bump(void)
{
	watched_number = watched_number == 9 ? 0 : watched_number + 1;
}

static pid_t start_writer(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "writer");
	for (;;) {
		bump();
		other_number++;
		usleep(20000);
	}
}

static void client_start(struct client *c)
{
	int in[2];
	int out[2];

	memset(c, 0, sizeof(*c));
	c->process = start_writer();
	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	c->adapter = fork();
	if (!c->adapter) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(trapline, "trapline", "dap", NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	c->in = in[1];
	c->out = out[0];
}

/* One message; false: the time is over, or the adapter has gone. */
static bool read_message(struct client *c, int timeout_ms)
{
	struct pollfd p = { .fd = c->out, .events = POLLIN };

	for (;;) {
		char *end = c->count ? memmem(c->bytes, c->count, "\r\n\r\n", 4) : NULL;
		size_t length = end ? strtoul(c->bytes + strlen("Content-Length: "), NULL, 10) : 0;
		size_t header = end ? (size_t)(end - c->bytes) + 4 : 0;
		if (end && c->count - header >= length) {
			assert_true(c->messages < MESSAGES_MAX);
			json_t *j = json_loadb(c->bytes + header, length, 0, NULL);
			assert_non_null(j);
			c->message[c->messages++] = j;
			c->count -= header + length;
			memmove(c->bytes, c->bytes + header + length, c->count);
			return true;
		}
		if (poll(&p, 1, timeout_ms) <= 0)
			return false;
		c->bytes = realloc(c->bytes, c->count + 65536);
		ssize_t n = read(c->out, c->bytes + c->count, 65536);
		if (n <= 0)
			return false;
		c->count += (size_t)n;
	}
}

static const char *text_of(const json_t *j, const char *member)
{
	const char *text = json_string_value(json_object_get(j, member));

	return text ? text : "";
}

/* The answer of a request, whose arguments are JSON with ' for ". */
static const json_t *ask(struct client *c, const char *command, const char *arguments)
{
	char text[2048];
	char *message;

	snprintf(text, sizeof(text), "%s", arguments);
	for (char *p = text; (p = strchr(p, '\''));)
		*p = '"';
	int n = asprintf(
		&message,
		"{\"seq\": %d, \"type\": \"request\", \"command\": \"%s\", \"arguments\": %s}",
		++c->seq, command, text);
	assert_true(n > 0);
	dprintf(c->in, "Content-Length: %d\r\n\r\n%s", n, message);
	free(message);
	for (size_t i = c->messages;; i++) {
		while (i >= c->messages)
			assert_true(read_message(c, PATIENCE_MS));
		const json_t *j = c->message[i];
		assert_string_not_equal(text_of(j, "event"), "stopped");
		if (!strcmp(text_of(j, "type"), "response") &&
		    json_integer_value(json_object_get(j, "request_seq")) == c->seq)
			return j;
	}
}

/* The nth line of output from now on that has the text; n from 1. */
static const json_t *line_with(struct client *c, const char *text, int n)
{
	for (size_t i = c->messages;; i++) {
		while (i >= c->messages)
			assert_true(read_message(c, PATIENCE_MS));
		const json_t *body = json_object_get(c->message[i], "body");
		if (strstr(text_of(body, "output"), text) && !--n)
			return body;
	}
}

static void attach(struct client *c)
{
	char arguments[64];

	client_start(c);
	ask(c, "initialize", "{'adapterID': 'trapline'}");
	snprintf(arguments, sizeof(arguments), "{'processId': '%d'}", c->process);
	const json_t *answer = ask(c, "attach", arguments);
	if (!json_is_true(json_object_get(answer, "success")))
		fail_msg("%s", text_of(answer, "message"));
	ask(c, "configurationDone", "{}");
}

static void end(struct client *c)
{
	int status;

	assert_int_equal(waitpid(c->process, NULL, WNOHANG), 0);
	ask(c, "disconnect", "{}");
	assert_int_equal(waitpid(c->adapter, &status, 0), c->adapter);
	assert_int_equal(status, 0);
	kill(c->process, SIGKILL);
	waitpid(c->process, NULL, 0);
	for (size_t i = 0; i < c->messages; i++)
		json_decref(c->message[i]);
	free(c->bytes);
	close(c->in);
	close(c->out);
}

static const json_t *row_of(const json_t *answer, size_t i)
{
	return json_array_get(json_object_get(json_object_get(answer, "body"), "breakpoints"), i);
}

static bool is_verified(const json_t *answer, size_t i)
{
	return json_is_true(json_object_get(row_of(answer, i), "verified"));
}

static void a_change_is_a_line_and_part_of_the_history(void **state)
{
	struct client c;

	attach(&c);
	const json_t *answer =
		ask(&c, "setDataBreakpoints",
		    "{'breakpoints': [{'dataId': 'watched_number', 'accessType': 'write'}]}");
	assert_true(is_verified(answer, 0));
	const json_t *body = line_with(&c, "watched_number: 3 -> 4, writer/", 1);
	assert_non_null(strstr(text_of(body, "output"), " in bump+"));
	assert_non_null(
		strstr(text_of(json_object_get(body, "source"), "path"), "test_dap_data.c"));
	assert_true(json_integer_value(json_object_get(body, "line")) > 40);
	answer = ask(&c, "evaluate", "{'expression': 'watched_number', 'context': 'hover'}");
	const char *history = text_of(json_object_get(answer, "body"), "result");
	assert_non_null(strstr(history, "3 -> 4"));
	assert_non_null(strstr(history, "s ago"));
	end(&c);
}

static void a_false_condition_gives_no_line(void **state)
{
	struct client c;

	attach(&c);
	const json_t *answer =
		ask(&c, "setDataBreakpoints",
		    "{'breakpoints': [{'dataId': 'watched_number', 'accessType': 'write', "
		    "'condition': 'new == 5', 'hitCondition': '3'}]}");
	assert_true(is_verified(answer, 0));
	line_with(&c, "watched_number: ", 3);
	/* Long enough for a fourth one. */
	for (int i = 0; i < 30; i++)
		read_message(&c, 20);
	int lines = 0;
	for (size_t i = 0; i < c.messages; i++) {
		const char *text = text_of(json_object_get(c.message[i], "body"), "output");
		lines += !strncmp(text, "watched_number: ", 16);
		assert_true(strncmp(text, "watched_number: ", 16) || strstr(text, "4 -> 5") ||
			    strstr(text, "-> 5"));
	}
	assert_int_equal(lines, 3);
	end(&c);
}

static void the_fifth_register_is_refused_and_a_removed_one_is_free(void **state)
{
	const char *five =
		"{'breakpoints': [{'dataId': 'watched_number'}, {'dataId': 'other_number'}, "
		"{'dataId': 'other_number:1'}, {'dataId': 'other_number:2'}, "
		"{'dataId': 'watched_number:1'}]}";
	struct client c;

	attach(&c);
	const json_t *answer = ask(&c, "setDataBreakpoints", five);
	for (size_t i = 0; i < 4; i++)
		assert_true(is_verified(answer, i));
	assert_false(is_verified(answer, 4));
	assert_non_null(strstr(text_of(row_of(answer, 4), "message"), "no debug register is free"));
	answer = ask(
		&c, "setDataBreakpoints",
		"{'breakpoints': [{'dataId': 'watched_number'}, {'dataId': 'other_number:4'}]}");
	assert_true(is_verified(answer, 0) && is_verified(answer, 1));
	line_with(&c, "other_number:4: ", 2);
	end(&c);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_change_is_a_line_and_part_of_the_history),
		cmocka_unit_test(a_false_condition_gives_no_line),
		cmocka_unit_test(the_fifth_register_is_refused_and_a_removed_one_is_free),
	};

	snprintf(trapline, sizeof(trapline), "%s/trapline", argc > 1 ? argv[1] : ".");
	if (access(trapline, X_OK))
		snprintf(trapline, sizeof(trapline), "%s/../trapline", argv[1]);
	setenv("CMOCKA_MESSAGE_OUTPUT", "TAP", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
