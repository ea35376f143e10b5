package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// turnstiles are those of so many processes that opened one file.
func turnstiles(t *testing.T, n int) []*turnstile {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.db")
	var all []*turnstile
	for range n {
		each, err := openTurnstile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { each.Close() })
		all = append(all, each)
	}
	return all
}

func inside(t *testing.T, stile *turnstile) (leave func()) {
	t.Helper()
	leave, err := stile.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

func TestTurnstileLetsInOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stiles := turnstiles(t, 2)
		leave := inside(t, stiles[0])
		var came atomic.Int32
		var coming sync.WaitGroup
		defer coming.Wait()
		for _, stile := range stiles {
			coming.Go(func() {
				leave := inside(t, stile)
				came.Add(1)
				time.Sleep(turnPatience / 2)
				leave()
			})
		}
		time.Sleep(turnPatience / 2)
		if came.Load() != 0 {
			t.Error("somebody came in while another was inside")
		}
		leave()
		time.Sleep(turnPause)
		if came.Load() != 1 {
			t.Errorf("%d are inside once it is free", came.Load())
		}
		time.Sleep(turnPatience/2 + turnPause)
		if came.Load() != 2 {
			t.Error("the second did not come in after the first")
		}
	})
}

// A process that froze inside holds up each other process for turnPatience once, not each of their transactions.
func TestTurnstileIsNotHeldUpForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stiles := turnstiles(t, 2)
		frozen := inside(t, stiles[0])
		for n := range 3 {
			began := time.Now()
			leave := inside(t, stiles[1])
			took := time.Since(began)
			if first := n == 0; first != (took >= turnPatience) || took > turnPatience+turnPause {
				t.Errorf("entry %d took %v", n, took)
			}
			leave()
		}
		frozen()
		inside(t, stiles[1])()
		again := inside(t, stiles[0])
		began := time.Now()
		time.AfterFunc(turnPatience/2, again)
		inside(t, stiles[1])()
		if took := time.Since(began); took < turnPatience/2 {
			t.Errorf("it went around one who was not the frozen one, after %v", took)
		}
	})
}

func TestTurnstileObeysTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stiles := turnstiles(t, 2)
		leave := inside(t, stiles[0])
		defer leave()
		for name, stile := range map[string]*turnstile{"its own": stiles[0], "another": stiles[1]} {
			ctx, cancel := context.WithTimeout(t.Context(), turnPatience/2)
			defer cancel()
			if _, err := stile.Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("behind %s process: %v", name, err)
			}
		}
	})
}

// With a file that cannot be locked, the order is lost, and no time.
func TestTurnstileThatCannotBeLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stile := turnstiles(t, 1)[0]
		if err := stile.Close(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 3 {
			inside(t, stile)()
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// A user that may write the database may pass, whichever user made the turnstile.
func TestTurnstileHasTheRightsOfItsDatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o660); err != nil { //nolint:gosec // a group that shares it
		t.Fatal(err)
	}
	stile, err := openTurnstile(file)
	if err != nil {
		t.Fatal(err)
	}
	defer stile.Close()
	if info, err := stile.file.Stat(); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
