#!/bin/sh
# Creates the files of compose.yaml's secrets in the folder secrets beside this file. Existing ones stay.
#
# The folder is closed to others; the files in it are readable, since each container reads them as
# a user of its own.
set -eu
cd "$(dirname "$0")"
umask 022
mkdir -p secrets
chmod 700 secrets

random() { od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n'; }

sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1; }

# put NAME TEXT writes a secret that does not exist yet.
put() {
	[ -e "secrets/$1" ] || (umask 0333 && printf '%s\n' "$2" > "secrets/$1")
}

put mysql_password "$(random)"
put redis_password "$(random)"
put store_dsn "lockstep:$(cat secrets/mysql_password)@tcp(mysql:3306)/lockstep"
put admin_token "lockstep_$(random)"
put tokens "- {name: admin, role: admin, sha256: \"$(tr -d '\n' < secrets/admin_token | sha256)\"}"
