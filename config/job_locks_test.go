package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/quorumlock"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
)

// What a lock service cannot hold is refused with its place, for jobs and pools, by what the backends themselves say.
func TestLocksThatTheServiceCannotHold(t *testing.T) {
	const held = `
pools:
  p:
    command: [echo]
    locks: [{key: a, limit: 3}]
jobs:
  a:
    command: [echo]
    locks:
      - {key: b, limit: 1}
      - key: c
        mode: shared
      - {key: d, mode: exclusive}
`
	mysql := func(mode sqllock.Mode) locks.Caps {
		return sqllock.New(nil, sqllock.MySQL, sqllock.Options{Mode: mode}).Caps()
	}
	for text, backend := range map[string]locks.Caps{
		`store: {driver: sqlite}`:                    sqllock.New(nil, sqllock.SQLite, sqllock.Options{}).Caps(),
		`lock: {driver: sqlite, mysql: {mode: row}}`: sqllock.New(nil, sqllock.SQLite, sqllock.Options{}).Caps(),
		`lock: {driver: redis}`:                      redislock.New(nil).Caps(),
		`lock: {driver: zookeeper}`:                  zklock.New(nil, zklock.Options{}).Caps(),
		`lock: {driver: quorum, quorum: {nodes: [{addrs: ["a:1"]}, {addrs: ["b:1"]}, {addrs: ["c:1"]}]}}`: quorumlock.New(nil, quorumlock.Options{}).Caps(),
		`lock: {driver: mysql, mysql: {dsn: "u:p@tcp(db:3306)/a"}}`:                                       mysql(sqllock.Lease),
		`lock: {driver: mysql, mysql: {dsn: "u:p@tcp(db:3306)/a", mode: row}}`:                            mysql(sqllock.Row),
		`{store: {driver: mysql, dsn: "u:p@tcp(db:3306)/a"}, lock: {mysql: {mode: row}}}`:                 mysql(sqllock.Row),
	} {
		if inner, ok := strings.CutPrefix(text, "{"); ok {
			text = strings.ReplaceAll(strings.TrimSuffix(inner, "}"), "}, lock", "}\nlock")
		}
		line := 2 + strings.Count(text, "\n")
		other := "choose another lock.driver"
		if backend.Name == "mysql-row" {
			other = "write lock.mysql.mode: lease"
		}
		var want []string
		if !backend.Limit {
			want = append(want, fmt.Sprintf("lockstep.yaml:%d:29: pools.p.locks[0].limit: the lock service, %s, has no limits; remove limit, or %s", line+4, backend.Name, other))
		}
		if !backend.Shared {
			want = append(want, fmt.Sprintf("lockstep.yaml:%d:15: jobs.a.locks[1].mode: the lock service, %s, has no shared locks; remove mode, or %s", line+11, backend.Name, other))
		}
		_, err := config.LoadBytes("lockstep.yaml", []byte("version: 1\n"+text+held), options)
		if got := fmt.Sprint(err); len(want) == 0 && err != nil || len(want) > 0 && got != strings.Join(want, "\n") {
			t.Errorf("%s\n%s\nwant %q", text, got, want)
		}
	}
}

// A long key is shown in part, and not at all if it is that of a variable.
func TestLongKeysOfLocks(t *testing.T) {
	environ := config.Options{Environ: []string{"SECRET=" + strings.Repeat("s", 300)}}
	for key, want := range map[string]string{
		strings.Repeat("k", 195):                                      "",
		"user/" + strings.Repeat("k", 195):                            "",
		strings.Repeat("k", 195) + "{{.payload.t}}":                   "must be 1 to 200", // by package jobs: with a character of the payload
		strings.Repeat("k", 196):                                      `"` + strings.Repeat("k", 60) + `…" is too long: it has 196 characters; a key has at most 195, without user/ in front`,
		strings.Repeat("k", 100_000):                                  `"` + strings.Repeat("k", 60) + `…" is too long: it has 100000 characters`,
		strings.Repeat("k", 100_000) + "{{.payload.none}}":            `…" is too long: it has 100000 characters`,
		"sys/" + strings.Repeat("k", 100_000):                         `…" is too long: it has 100004 characters`,
		"${SECRET}":                                                   `jobs.a.locks[0]: "${SECRET}" is too long: it has 300 characters`,
		"{{.payload.t}}" + strings.Repeat("-", 190):                   "",
		strings.Repeat("ä", 150):                                      "must be 1 to 200 printable ASCII", // it is not too long
		strings.Repeat("{{.payload.t}}", 20) + strings.Repeat("k", 9): "",
	} {
		for _, form := range []string{"%q", "{key: %q}"} {
			text := "version: 1\njobs: {a: {command: [echo], payload: {t: 1}, locks: [" + fmt.Sprintf(form, key) + "]}}"
			_, err := config.LoadBytes("lockstep.yaml", []byte(text), environ)
			want := want
			if form != "%q" {
				want = strings.Replace(want, "locks[0]", "locks[0].key", 1)
			}
			if got := fmt.Sprint(err); (err == nil) != (want == "") || err != nil && (!strings.Contains(got, want) || strings.Count(got, "\n") > 0 || strings.Contains(want, "too long") && len(got) > 250) {
				t.Errorf("%.80s: %.400s\nwant %s", key, got, want)
			}
		}
	}
}

// Holders of one key that differ in mode or limit exclude each other, and lock_wait without locks does nothing.
func TestLocksThatAreProbablyMistaken(t *testing.T) {
	for text, want := range map[string][]string{
		// An exclusive holder is meant to keep the others away; one kind is one kind; a payload decides.
		"  a: {command: [echo], locks: [{key: k, limit: 3}, {key: s, mode: shared}]}\n  b: {command: [echo], locks: [k, {key: s, limit: 1, mode: shared}]}\n  c: {command: [echo], locks: [s]}\n": nil,
		"  a: {command: [echo], locks: [{key: k, limit: 3}]}\n  b: {command: [echo], locks: [{key: user/k, limit: 3, mode: exclusive}]}\n":                                                        nil,
		"  a: {command: [echo], payload: {t: 1}, locks: [{key: \"{{.payload.t}}\", limit: 3}]}\n  b: {command: [echo], payload: {t: 2}, locks: [{key: \"{{.payload.t}}\", limit: 4}]}\n":          nil,

		"  z: {command: [echo], locks: [x, {key: k, limit: 3}]}\n  b: {command: [echo], locks: [{key: user/k, limit: 4}]}\n": {
			"lockstep.yaml:4:53: jobs.b.locks[0].limit: the same key has limit 3 in jobs.z (lockstep.yaml:3:35), and has limit 4 here: these holders exclude each other; write the same in both",
		},
		"  a: {command: [echo], locks: [{key: k, mode: shared}]}\n  b: {command: [echo], locks: [{key: k, limit: 2}]}\n  c: {command: [echo], locks: [{key: k, mode: shared}]}\n": {
			"lockstep.yaml:4:48: jobs.b.locks[0].limit: the same key is shared in jobs.a (lockstep.yaml:3:32), and has limit 2 here: these holders exclude each other; write the same in both",
		},
		"  a: {pool: p, locks: [{key: k, limit: 2}]}\npools:\n  p: {command: [echo], locks: [{key: k, mode: shared}]}\n": {
			"lockstep.yaml:5:47: pools.p.locks[0].mode: the same key has limit 2 in jobs.a (lockstep.yaml:3:24), and is shared here: these holders exclude each other; write the same in both",
		},

		"  a: {command: [echo], locks: [k], lock_wait: 1m}\n  b: {pool: p, lock_wait: 1m}\npools:\n  p: {command: [echo], locks: [k], lock_wait: 1m}\n": nil,
		"  a: {command: [echo], lock_wait: 1m}\n  b: {pool: p, command: [echo], lock_wait: 2m, locks: []}\npools:\n  p: {command: [echo], locks: [k]}\n  q: {command: [echo], lock_wait: 3m}\n": {
			"lockstep.yaml:3:35: jobs.a.lock_wait: has no effect: the job has no locks; write locks, or remove it",
			"lockstep.yaml:4:44: jobs.b.lock_wait: has no effect: the job has no locks; write locks, or remove it",
			"lockstep.yaml:7:35: pools.q.lock_wait: has no effect: the pool has no locks; write locks, or remove it; for locks of a job, write it in the job",
		},
	} {
		if got := warnings(load(t, "jobs:\n"+text)); !slices.Equal(got, want) {
			t.Errorf("%s%s\nwant\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// The namespace of locks in a lock service of their own is that of the store, and a store in a file is one of this machine: a warning
// says that no other machine shares the locks.
func TestLocksInTheNamespaceOfAFile(t *testing.T) {
	const service = "lock: {driver: redis}\n"
	for text, warned := range map[string]bool{
		service:                          true,
		service + "name: \"${EMPTY}\"\n": true,
		service + "name: prod\n":         false,
		"lock: {driver: sqlite}\n":       false,
		"lock: {mysql: {mode: lease}}\n": false,
		service + "store: {driver: mysql, dsn: \"u:p@tcp(db:3306)/a\"}\n":     false,
		"lock: {driver: mysql, mysql: {dsn: \"u:p@tcp(db:3306)/a\"}}\n":       true,
		"lock: {driver: zookeeper}\nstore: {driver: sqlite, dsn: other.db}\n": true,
	} {
		got := warnings(load(t, "jobs: {a: {command: [echo]}}\n"+text))
		file := "lockstep.db"
		if strings.Contains(text, "other.db") {
			file = "other.db"
		}
		want := ": name: is not set: the namespace of the locks is that of the database " + file + ", so other machines and programs do not share them; set name"
		if len(got) > 1 || (len(got) == 1) != warned || warned && !strings.Contains(got[0], want) {
			t.Errorf("%s%q", text, got)
		}
	}
}

func warnings(c *config.Config) (all []string) {
	for _, w := range c.Warnings {
		all = append(all, w.Error())
	}
	return all
}
