package api

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// The pages of a list have each holder and each waiter once, in the order of keys, of each key first the holders by their tokens
// and then those who wait by their places, wherever a page ends.
func TestLocksInPages(t *testing.T) {
	t.Parallel()
	service := memlock.New()
	locker := func(owner string) *locks.Locker {
		l, err := locks.New(service, locks.Options{Owner: owner})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close(context.Background()) })
		return l
	}
	keys := []string{"a", "a/b", "b"}
	for _, owner := range []string{"one", "two", "three"} {
		l := locker(owner)
		for _, key := range keys {
			if _, err := l.Acquire(t.Context(), locks.Request{Key: key, Mode: locks.Shared}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer stop()
	for _, owner := range []string{"four", "five"} {
		l := locker(owner)
		for _, key := range keys {
			waiting.Go(func() { _, _ = l.Acquire(ctx, locks.Request{Key: key}) })
		}
	}
	b := newBackend()
	listed := &listed{Locker: locker("api")}
	h := New(Backend{Store: ledger.Sides{API: b}, Replica: b, Locks: listed}, Options{})
	type row struct {
		Key   string
		Place int
		Token int64
	}
	page := func(query string) (rows []row, next string) {
		t.Helper()
		w := ask(t, h, "GET", "/api/v1/locks?"+query, "")
		if w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		p := decode[wire.List[wire.Lock]](t, w.Body.String())
		for _, l := range p.Items {
			rows = append(rows, row{l.Key, l.Place, l.Token})
		}
		return rows, p.Next
	}
	var whole []row
	await.Until(t, "all hold or wait", func() bool { whole, _ = page("limit=500"); return len(whole) == 5*len(keys) })
	for i, r := range whole[:5] {
		if r.Key != "user/a" || r.Place != max(0, i-2) || (r.Token > 0) != (i < 3) || i > 0 && i < 3 && r.Token <= whole[i-1].Token {
			t.Errorf("row %d is %+v", i, r)
		}
	}
	for _, limit := range []int{1, 2, 4, 7, 14, 15} {
		var all []row
		listed.rows = 0
		for rows, next := page(fmt.Sprint("limit=", limit)); ; rows, next = page(fmt.Sprint("limit=", limit, "&cursor=", next)) {
			if all = append(all, rows...); next == "" {
				break
			}
			if len(rows) != limit {
				t.Fatalf("a page of %d has %d rows, and there is a next one", limit, len(rows))
			}
			listed.rows = 0
		}
		if most := (len(whole)-1)%limit + 7; listed.rows > most { // those of the key where it begins, one of the next key, and its own
			t.Errorf("in pages of %d: the last page read %d rows, want at most %d", limit, listed.rows, most)
		}
		if !slices.Equal(all, whole) {
			t.Errorf("in pages of %d:\n%v, want\n%v", limit, all, whole)
		}
	}
	if rows, _ := page("prefix=user/a/"); !slices.Equal(rows, whole[5:10]) {
		t.Errorf("below a prefix: %v", rows)
	}
}

// listed counts the rows that were read.
type listed struct {
	*locks.Locker
	rows int
}

func (l *listed) Inspect(ctx context.Context, prefix string) iter.Seq2[driver.Info, error] {
	return l.counted(l.Locker.Inspect(ctx, prefix))
}

func (l *listed) InspectAfter(ctx context.Context, prefix, after string) iter.Seq2[driver.Info, error] {
	return l.counted(l.Locker.InspectAfter(ctx, prefix, after))
}

func (l *listed) counted(all iter.Seq2[driver.Info, error]) iter.Seq2[driver.Info, error] {
	return func(yield func(driver.Info, error) bool) {
		for info, err := range all {
			if l.rows++; !yield(info, err) {
				return
			}
		}
	}
}

// TestLocksUnknown: a failing lock service is 503, not an empty list.
func TestLocksUnknown(t *testing.T) {
	b := newBackend()
	b.err = fmt.Errorf("redis 127.0.0.1:6379: %w", driver.ErrUnreachable)
	if w := ask(t, b.api(Options{}), "GET", "/api/v1/locks", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	without := New(Backend{Store: ledger.Sides{API: b}, Replica: b}, Options{})
	if w := ask(t, without, "GET", "/api/v1/locks", ""); w.Code != http.StatusNotFound {
		t.Errorf("without locks: %d %s", w.Code, w.Body)
	}
}
