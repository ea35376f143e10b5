#!/bin/sh
# Prints the SQL that copies a SQLite store into a MySQL or MariaDB store whose tables are
# new and empty: sqlite-to-mysql.sh lockstep.db | mysql lockstep
#
# Stop every replica before, with SIGTERM, so that nothing runs. It copies jobs, ledger,
# tasks, output and keys; no sessions.
set -eu
file=$1
prefix=${2:-lockstep_}
[ -f "$file" ] || { echo "$file is no file" >&2; exit 1; }

running=$(sqlite3 "$file" "SELECT count(*) FROM ${prefix}tasks WHERE state = 2")
[ "$running" = 0 ] || { echo "$running tasks are running: stop the replicas first, and wait until they ended" >&2; exit 1; }

echo "SET SESSION sql_mode = 'STRICT_ALL_TABLES';"
echo "START TRANSACTION;"
tables=$(sqlite3 "$file" "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, length('$prefix')) = '$prefix' ORDER BY name")
for table in $tables; do
	case $table in
	"${prefix}migrations" | "${prefix}sessions" | "${prefix}stripes") continue ;;
	esac
	echo "DELETE FROM $table;"
	columns=$(sqlite3 "$file" "SELECT group_concat(name, ', ') FROM pragma_table_info('$table')")
	values=$(sqlite3 "$file" "SELECT group_concat('CASE typeof(' || name || ') WHEN ''null'' THEN ''NULL'' WHEN ''integer'' THEN ' || name || ' ELSE ''X'''''' || hex(' || name || ') || '''''''' END', ' || '', '' || ') FROM pragma_table_info('$table')")
	sqlite3 "$file" "SELECT 'INSERT INTO $table ($columns) VALUES (' || $values || ');' FROM $table"
done
echo "COMMIT;"
