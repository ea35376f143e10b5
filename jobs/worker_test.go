package jobs

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// around is a handler that surrounds another one.
type around struct{ Handler }

func (a around) Unwrap() Handler { return a.Handler }

type other struct{}

func (other) Run(context.Context, Task, io.Writer) error { return nil }

// What only replicas can do is refused beside a Worker; all else is as with other handlers.
func TestWorkersAndWhatIsRefused(t *testing.T) {
	locks := []Lock{{Key: "db"}}
	for what, c := range map[string]struct {
		set  Set
		want string
	}{
		"a pool":      {Set{Pools: map[string]Pool{"mail": {Handler: Worker{}, MaxRunning: 3, Order: OrderKey}}}, ""},
		"kinds":       {Set{Pools: map[string]Pool{"mail": {Handler: other{}, Kinds: map[string]Handler{"a": Worker{}}}}}, ""},
		"its job":     {Set{Pools: map[string]Pool{"mail": {Handler: Worker{}}}, Jobs: map[string]Job{"j": {Pool: "mail"}}}, ""},
		"locks":       {Set{Pools: map[string]Pool{"mail": {Handler: Worker{}, Locks: locks}}}, "pools.mail.locks: only replicas hold locks"},
		"of a kind":   {Set{Pools: map[string]Pool{"mail": {Kinds: map[string]Handler{"a": around{Worker{}}}, Locks: locks}}}, "pools.mail.locks: only replicas hold locks"},
		"a job's":     {Set{Pools: map[string]Pool{"mail": {Handler: Worker{}}}, Jobs: map[string]Job{"j": {Pool: "mail", Locks: locks}}}, "jobs.j.locks: only replicas hold locks"},
		"of its kind": {Set{Pools: map[string]Pool{"mail": {Kinds: map[string]Handler{"a": Worker{}}}}, Jobs: map[string]Job{"j": {Pool: "mail", Kind: "a", RunsOn: map[string]string{"zone": "a"}}}}, "jobs.j.runs_on: is for replicas"},
		"another's":   {Set{Pools: map[string]Pool{"mail": {Handler: Worker{}}}, Jobs: map[string]Job{"j": {Pool: "mail", Handler: other{}, Locks: locks, RunsOn: map[string]string{"zone": "a"}}}}, ""},
		"a job":       {Set{Jobs: map[string]Job{"j": {Handler: Worker{}}}}, "jobs.j.worker: is for pools and their kinds"},
	} {
		err := c.set.Validate()
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

// The store tells by the fingerprint which kinds workers run; a pool whose handler becomes a Worker is another one.
func TestFingerprintsOfWorkers(t *testing.T) {
	p := Pool{Handler: around{Worker{}}, Kinds: map[string]Handler{"a": other{}, "b": Worker{}}}
	for kind, hash := range p.HandlerHashes() {
		if strings.HasPrefix(hash, "worker:") != (kind != "a") {
			t.Errorf("kind %q has %s", kind, hash)
		}
	}
	if (Pool{Handler: Worker{}}).Hash() == (Pool{Handler: described("worker")}).Hash() {
		t.Error("a handler that is described as a worker is one")
	}
}

type described string

func (described) Run(context.Context, Task, io.Writer) error { return nil }
func (d described) Describe() string                         { return string(d) }
