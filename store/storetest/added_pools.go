package storetest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// addPools: pools are known before a replica has loaded them, and are replaced by what a replica loads.
func addPools(t *testing.T, b *Bench) {
	_, err := b.Store.Enqueue(t.Context(), newTask("mail"))
	if !errors.Is(err, jobs.ErrNotFound) || !strings.Contains(err.Error(), "no replica has loaded any pools") || !strings.Contains(err.Error(), "AddPools") {
		t.Fatalf("before all: %v", err)
	}
	pools := map[string]jobs.Pool{"mail": {Retries: jobs.Retries{Limit: 6}}, "print": {}}
	for range 2 {
		must(t, b.Store.AddPools(t.Context(), pools))
	}
	if all := Enqueue(t, b, newTask("mail"), newTask("print"), newTask("default")); all[0].Task.MaxAttempts != 7 || all[1].Task.MaxAttempts != 11 {
		t.Fatalf("%+v", all)
	}

	session := Join(t, b, "a")
	Pools(t, b, session, "mail", "Letters")
	must(t, b.Store.AddPools(t.Context(), map[string]jobs.Pool{"mail": {}})) // with another hash than the one that was loaded
	if hash := b.DB.Text(t, `SELECT hash FROM {pools} WHERE name = 'mail'`); hash != "h" {
		t.Fatalf("a loaded pool was changed: %q", hash)
	}
	_, err = b.Store.Enqueue(t.Context(), newTask("print"))
	if !errors.Is(err, jobs.ErrNotFound) || !strings.HasSuffix(err.Error(), "known are Letters, default, mail") {
		t.Fatalf("a retired pool: %v", err)
	}
	const governs = `the configuration that governs, that of replica "a", does not have it`
	Join(t, b, "b") // has loaded none
	if _, err := b.Store.Enqueue(t.Context(), newTask("print")); err == nil || !strings.Contains(err.Error(), governs) {
		t.Fatalf("a retired pool: %v, want %s", err, governs)
	}
	if _, err := b.Store.Enqueue(t.Context(), newTask("none")); err == nil || !strings.Contains(err.Error(), "no replica has loaded a configuration with it") {
		t.Fatalf("a pool that none has: %v", err)
	}
	must(t, b.Store.AddPools(t.Context(), pools))
	Enqueue(t, b, newTask("print"))

	err = b.Store.AddPools(t.Context(), map[string]jobs.Pool{"a b": {}, "c": {Workers: -1}})
	if !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), "a b") || !strings.Contains(err.Error(), "workers") {
		t.Fatalf("bad pools: %v", err)
	}
}

// addPoolsInOtherCapitals: a pool does not exist twice under names that differ in capitals. What was retired is not in the
// way, and neither are names that a replica has loaded nevertheless.
func addPoolsInOtherCapitals(t *testing.T, b *Bench) {
	session := Join(t, b, "a")
	Pools(t, b, session, "mail", "Old")
	Pools(t, b, session, "mail")
	for _, name := range []string{"MAIL", "Mail"} {
		err := b.Store.AddPools(t.Context(), map[string]jobs.Pool{"fax": {}, name: {}})
		wrong, ok := errors.AsType[*jobs.FieldError](err)
		if !ok || wrong.Path != "pools."+name || !strings.Contains(wrong.Problem, "pool mail") || !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {pools} WHERE hash <> '' AND name <> 'mail' AND name <> 'default'`); n != 0 {
		t.Errorf("%d pools were added", n)
	}
	must(t, b.Store.AddPools(t.Context(), map[string]jobs.Pool{"mail": {}, "OLD": {}}))
	if err := b.Store.AddPools(t.Context(), map[string]jobs.Pool{"Old": {}}); !errors.Is(err, jobs.ErrInvalid) {
		t.Errorf("one that comes back: %v", err)
	}
	Pools(t, b, session, "mail", "MAIL")
	must(t, b.Store.AddPools(t.Context(), map[string]jobs.Pool{"MAIL": {}}))

	var refused atomic.Int32
	Together(t, 8, func(ctx context.Context, i int) error {
		name := []string{"print", "Print", "PRINT", "prinT"}[i%4]
		err := b.Store.AddPools(ctx, map[string]jobs.Pool{name: {}})
		if errors.Is(err, jobs.ErrInvalid) {
			refused.Add(1)
			return nil
		}
		return err
	})
	if n := refused.Load(); n != 6 {
		t.Errorf("%d of 8 were refused", n)
	}
}
