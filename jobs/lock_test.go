package jobs

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

func TestLockKeysTakeFieldsOfThePayload(t *testing.T) {
	const payload = `{"tenant":"acme","order":{"id":12345678901234567890,"paid":true,"lines":[1]},"blank":"a b","none":null,"empty":"","sys":"sys/stripe/01","f":1.50}`
	for key, want := range map[string]string{
		"orders-db":                               "orders-db",
		"tenant-{{.payload.tenant}}":              "tenant-acme",
		"{{ .payload.order.id }}/{{.payload.f}}":  "12345678901234567890/1.50",
		"paid={{.payload.order.paid}}":            "paid=true",
		"{{.payload.tenant}}-{{.payload.tenant}}": "acme-acme",
	} {
		l, err := Lock{Key: key, Limit: 3}.ForPayload(json.RawMessage(payload))
		if err != nil || l.Key != want || l.Limit != 3 {
			t.Errorf("%s: %+v, %v", key, l, err)
		}
	}
	for key, want := range map[string]string{
		"t-{{.payload.other}}":       "the payload has no other",
		"t-{{.payload.none}}":        "none of the payload is null",
		"t-{{.payload.empty}}":       "empty of the payload is empty",
		"t-{{.payload.none.x}}":      "the payload has no none.x",
		"t-{{.payload.tenant.x}}":    "the payload has no tenant.x",
		"t-{{.payload.order}}":       "order of the payload is a list or an object",
		"t-{{.payload.order.lines}}": "order.lines of the payload is a list or an object",
		"{{.payload.blank}}":         `key "a b": must be 1 to 200 printable`,
		"{{.payload.sys}}":           "are the scheduler's",
	} {
		if _, err := (Lock{Key: key}).ForPayload(json.RawMessage(payload)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
	for _, none := range []string{"", "null", "[]", "7"} {
		if _, err := (Lock{Key: "{{.payload.a}}"}).ForPayload(json.RawMessage(none)); err == nil {
			t.Errorf("payload %q has a field", none)
		}
	}
}

// A payload with which a lock has no key is named with the key and the field, for each lock.
func TestCheckLocks(t *testing.T) {
	all := []Lock{{Key: "db"}, {Key: "tenant-{{.payload.tenant}}"}, {Key: "{{.payload.order.id}}"}}
	for payload, want := range map[string]string{
		`{"tenant":"a","order":{"id":7}}`:  "",
		`{"tennant":"a","order":{"id":7}}`: `payload: key "tenant-{{.payload.tenant}}": the payload has no tenant; correct the payload: the task needs the key of each lock`,
		``: `payload: key "tenant-{{.payload.tenant}}": the payload has no tenant; correct the payload: the task needs the key of each lock` + "\n" +
			`payload: key "{{.payload.order.id}}": the payload has no order.id; correct the payload: the task needs the key of each lock`,
	} {
		if got := text(CheckLocks(all, json.RawMessage(payload))); got != want {
			t.Errorf("%s: %s, want %s", payload, got, want)
		}
	}
	if err := CheckLocks(all[:1], nil); err != nil {
		t.Error(err)
	}
}

func TestLocksAreChecked(t *testing.T) {
	many := make([]Lock, 17)
	for name, c := range map[string]struct {
		job  Job
		path string
		says string
	}{
		"no key":           {Job{Locks: []Lock{{}}}, "jobs.x.locks[0].key", "must be 1 to 200"},
		"a blank":          {Job{Locks: []Lock{{Key: "a b"}}}, "jobs.x.locks[0].key", `"a b"`},
		"the scheduler's":  {Job{Locks: []Lock{{Key: "a"}, {Key: "sys/pool/a"}}}, "jobs.x.locks[1].key", "choose another"},
		"another template": {Job{Locks: []Lock{{Key: "{{.Job}}"}}}, "jobs.x.locks[0].key", "{{.payload.tenant}}"},
		"a function":       {Job{Locks: []Lock{{Key: "{{len .payload.a}}"}}}, "jobs.x.locks[0].key", "a field of the payload"},
		"not closed":       {Job{Locks: []Lock{{Key: "{{.payload.a"}}}, "jobs.x.locks[0].key", "a field of the payload"},
		"no such field":    {Job{Payload: map[string]any{"a": 1}, Locks: []Lock{{Key: "{{.payload.b}}"}}}, "jobs.x.locks[0].key", "the payload has no b"},
		"twice":            {Job{Locks: []Lock{{Key: "a"}, {Key: "user/a"}}}, "jobs.x.locks[1].key", "locks[0]"},
		"mode":             {Job{Locks: []Lock{{Key: "a", Mode: "both"}}}, "jobs.x.locks[0].mode", "exclusive or shared"},
		"on_lost":          {Job{Locks: []Lock{{Key: "a", OnLost: "fail"}}}, "jobs.x.locks[0].on_lost", "cancel or continue"},
		"limit":            {Job{Locks: []Lock{{Key: "a", Limit: -1}}}, "jobs.x.locks[0].limit", "out of range"},
		"shared limit":     {Job{Locks: []Lock{{Key: "a", Mode: LockShared, Limit: 2}}}, "jobs.x.locks[0].limit", "no limit"},
		"many":             {Job{Locks: many}, "jobs.x.locks", "at most 16"},
		"lock_wait":        {Job{LockWait: -time.Second}, "jobs.x.lock_wait", "negative"},
	} {
		c.job.Handler = says("h")
		err := Set{Jobs: map[string]Job{"x": c.job}}.Validate()
		at := (*FieldError)(nil)
		if !errors.As(err, &at) || at.Path != c.path || !strings.Contains(at.Problem, c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	right := []Lock{{Key: "orders-db"}, {Key: "uplink", Limit: 3}, {Key: "schema", Mode: LockShared, OnLost: LockContinues}, {Key: "tenant-{{.payload.tenant}}"}}
	set := Set{
		Jobs:  map[string]Job{"x": {Handler: says("h"), Locks: right, LockWait: time.Minute, Payload: map[string]any{"tenant": "a"}}},
		Pools: map[string]Pool{"p": {Handler: says("h"), Locks: right, LockWait: time.Minute}},
	}
	if err := set.Validate(); err != nil {
		t.Error(err)
	}
	set.Pools["p"] = Pool{Locks: []Lock{{Key: " "}}}
	if err := set.Validate(); err == nil || !strings.Contains(err.Error(), "pools.p.locks[0].key") {
		t.Errorf("of a pool: %v", err)
	}
}

// What a definition may say, the lock service takes, and what it refuses is refused here.
func TestLockKeysAreThoseOfTheLockService(t *testing.T) {
	l, err := locks.New(memlock.New(), locks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	for _, key := range []string{
		"a", "user/a", "user/", "", "sys/a", "sys/", "a b", "ä", "a\n", "/", strings.Repeat("k", 195), strings.Repeat("k", 196), "user/" + strings.Repeat("k", 196),
	} {
		_, taken := l.TryAcquire(t.Context(), locks.Request{Key: key})
		_, filled := Lock{Key: key}.ForPayload(nil)
		if (taken == nil) != (filled == nil) {
			t.Errorf("%.20q: the lock service says %v, a definition %v", key, taken, filled)
		}
	}
}

func TestDefaultsOfLocksChangeNoHash(t *testing.T) {
	short := Job{Handler: says("h"), Locks: []Lock{{Key: "a"}}}
	long := Job{Handler: says("h"), Locks: []Lock{{Key: "a", Mode: LockExclusive, Limit: 1, OnLost: LockCancels}}}
	if short.Hash() != long.Hash() || short.Hash() == (Job{Handler: says("h")}).Hash() {
		t.Error("the defaults of a lock count, or the lock does not")
	}
	if short.Locks[0].Limit != 0 {
		t.Error("the hash has changed the definition")
	}
	one, other := Pool{Handler: says("h"), Locks: short.Locks}, Pool{Handler: says("h"), Locks: long.Locks}
	if one.Hash() != other.Hash() || one.HandlerHashes()[""] != other.HandlerHashes()[""] {
		t.Error("of a pool")
	}
}

// A job that runs its pool's handler holds the pool's locks, too, and its payload has the fields that they want.
func TestLocksOfAJob(t *testing.T) {
	pool := []Lock{{Key: "tenant-{{.payload.tenant}}"}, {Key: "user/orders-db", Mode: LockShared}}
	set := Set{
		Pools: map[string]Pool{"p": {Handler: says("h"), Locks: pool, LockWait: time.Minute}},
		Jobs: map[string]Job{
			"both":  {Pool: "p", Payload: map[string]any{"tenant": 1}, Locks: []Lock{{Key: "orders-db"}}},
			"pools": {Pool: "p", Payload: map[string]any{"tenant": 1}, LockWait: time.Hour},
			"own":   {Pool: "p", Handler: says("own"), Locks: []Lock{{Key: "a"}}},
			"none":  {Handler: says("h")},
		},
	}
	for name, want := range map[string]struct {
		keys string
		wait time.Duration
	}{
		"both":  {"orders-db exclusive,tenant-{{.payload.tenant}} exclusive", time.Minute},
		"pools": {"tenant-{{.payload.tenant}} exclusive,user/orders-db shared", time.Hour},
		"own":   {"a exclusive", 0},
		"none":  {"", 0},
	} {
		all, wait := set.LocksOf(name)
		var keys []string
		for _, l := range all {
			keys = append(keys, l.Key+" "+string(l.Mode))
		}
		if got := strings.Join(keys, ","); got != want.keys || wait != want.wait {
			t.Errorf("%s: %s, %v", name, got, wait)
		}
	}
	if err := set.Validate(); err != nil {
		t.Error(err)
	}
	set.Jobs["pools"] = Job{Pool: "p"}
	if err := set.Validate(); err == nil || err.Error() != "jobs.pools.payload: a lock of its pool p: key \"tenant-{{.payload.tenant}}\": the payload has no tenant" {
		t.Error(err)
	}
}
