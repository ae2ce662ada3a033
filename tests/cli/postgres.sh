#!/bin/sh
# SPDX-License-Identifier: MIT
# postgres.sh - a PostgreSQL server of a test's own. Its program is in $postgres.

# has_database: whether this machine can have one.
has_database()
{
	postgres=$(find /usr/lib/postgresql -path '*/bin/postgres' 2>/dev/null | sort -V | tail -n 1)
	[ -n "$postgres" ] && command -v psql >/dev/null && id postgres >/dev/null 2>&1
}

# The server refuses to run as root.
as_postgres()
{
	setpriv --reuid=postgres --regid=postgres --clear-groups env -C / "$@"
}

# make_data DIR: of a user who needs no password, in a folder that is of the user postgres.
make_data()
{
	as_postgres "${postgres%postgres}initdb" -D "$1" -A trust --no-sync
}
