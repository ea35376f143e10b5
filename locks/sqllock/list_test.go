package sqllock_test

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// A list has as many keys as were asked for, whatever dead sessions hold before and between them, and all holders of each.
func TestAListGoesPastDeadHolders(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		if !d.Caps().Shared {
			return // a list of row locks has no dead holders
		}
		dead, a, b := session(t, d, time.Minute), session(t, d, time.Minute), session(t, d, time.Minute)
		for i := range 5 {
			take(t, dead, fmt.Sprintf("a%d", i), fmt.Sprintf("c%d", i))
		}
		for _, s := range []driver.Session{a, b} {
			for _, key := range []string{"b", "d", "e"} {
				if r, err := s.TryAcquire(t.Context(), rand.Text(), []driver.Want{{Key: key, Shared: true}}); err != nil || r[0].Token == 0 {
					t.Fatal(r, err)
				}
			}
		}
		if _, err := db.ExecContext(t.Context(), `UPDATE lockstep_lock_sessions2 SET dead = 1 WHERE id = ?`, dead.ID()); err != nil {
			t.Fatal(err)
		}
		for after, want := range map[string]string{"": "bbdd", "a": "bbdd", "b": "ddee", "bb": "ddee", "d": "ee", "e": ""} {
			infos, err := a.List(t.Context(), "", after, 2)
			var got strings.Builder
			for _, i := range infos {
				got.WriteString(i.Key)
			}
			sorted := slices.IsSortedFunc(infos, func(x, y driver.Info) int { return strings.Compare(x.Key, y.Key) })
			if err != nil || got.String() != want || !sorted {
				t.Errorf("after %q: %q, %v; want %q", after, got.String(), err, want)
			}
		}
		if infos, err := a.List(t.Context(), "d", "a", 5); err != nil || len(infos) != 2 || infos[0].Key != "d" || infos[0].Remaining <= 0 || infos[0].Owner == "" {
			t.Errorf("of a prefix that is a key: %+v, %v", infos, err)
		}
	})
}
