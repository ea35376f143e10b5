package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A lock that the lock service cannot hold is the same mistake for validate, doctor and serve: none contacts a server before.
func TestLocksThatTheServiceCannotHoldAreNoConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockstep.yaml")
	text := `version: 1
name: prod
lock: {driver: mysql, mysql: {dsn: "u:p@tcp(127.0.0.1:1)/a", mode: row}}
jobs:
  a: {command: [echo], locks: [{key: uplink, limit: 3}, {key: schema, mode: shared}]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := file + ":5:53: jobs.a.locks[0].limit: the lock service, mysql-row, has no limits; remove limit, or write lock.mysql.mode: lease\n" +
		file + ":5:77: jobs.a.locks[1].mode: the lock service, mysql-row, has no shared locks; remove mode, or write lock.mysql.mode: lease\n"
	for _, command := range []string{"validate", "doctor", "serve"} {
		if got := call(t, nil, command, "-c", file); got.code != exitUsage || got.stderr != want {
			t.Errorf("%s: exit code %d, %s\nwant %s", command, got.code, got.stderr, want)
		}
	}
}

// What pauses a pool is shown.
func TestValidateShowsPauseOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockstep.yaml")
	put(t, file, "version: 1\npools: {mail: {command: [echo], pause_on: {failures: 50%, of: 100}}}\n")
	for output, want := range map[string]string{"table": "mail pauses itself when 50% of its last 100 attempts have failed\n", "yaml": "failures: 50%"} {
		if got := call(t, nil, "validate", file, "-o", output); got.code != exitFine || !strings.Contains(got.stdout, want) {
			t.Errorf("%+v", got)
		}
	}
}

// What is probably mistaken about locks is a warning of validate and of doctor.
func TestWarningsAboutLocks(t *testing.T) {
	dir := t.TempDir()
	all, code := runDoctor(t, dir, `lock: {driver: redis, redis: {addrs: ["127.0.0.1:1"]}}
pools: {p: {command: [echo], locks: [{key: uplink, limit: 3}]}, q: {command: [echo], locks: [{key: uplink, limit: 4}]}, r: {command: [echo], lock_wait: 1m}}`)
	if code != exitFailed { // there is no Redis
		t.Errorf("exit code %d", code)
	}
	warned := []string{
		"name: is not set: the namespace of the locks is that of the database " + filepath.Join(dir, "lockstep.db"),
		"pools.q.locks[0].limit: the same key has limit 3 in pools.p",
		"pools.r.lock_wait: has no effect",
	}
	got := call(t, nil, "validate", filepath.Join(dir, "lockstep.yaml"))
	for _, w := range warned {
		wantFinding(t, all, "warning configuration: "+filepath.Join(dir, "lockstep.yaml")+":")
		wantFinding(t, all, w)
		if got.code != exitFine || !strings.Contains(got.stderr, w) {
			t.Errorf("validate: exit code %d, %s\nwant %s", got.code, got.stderr, w)
		}
	}
}
