//go:build !fuzz

package api

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TestPauseOnOverSQLite: a pool that was paused since its attempts failed says so, with the numbers, until it is resumed.
func TestPauseOnOverSQLite(t *testing.T) {
	t.Parallel()
	b := newBackend()
	b.set = jobs.Set{Pools: map[string]jobs.Pool{"mail": {PauseOn: jobs.PauseOn{Failures: 60, Of: 3}}}}
	h, s := overSQLiteWith(t, b)
	for range 5 {
		ask(t, h, "POST", "/api/v1/pools/mail/tasks", `{"kind":"welcome","payload":7}`)
	}
	mail := func() wire.Pool {
		t.Helper()
		for _, p := range decode[wire.List[wire.Pool]](t, ask(t, h, "GET", "/api/v1/pools", "").Body.String()).Items {
			if p.Name == "mail" {
				return p
			}
		}
		t.Fatal("there is no pool mail")
		return wire.Pool{}
	}
	if p := mail(); p.Paused || p.PausedReason != "" || p.PauseOn == nil || *p.PauseOn != (wire.PauseOn{Failures: "60%", Of: 3}) {
		t.Errorf("%+v", p)
	}
	failTasksWith(t, s.Sides().Replica, "mail", b.set.Pools["mail"].PauseOn)
	if p := mail(); !p.Paused || p.Override == nil || p.PausedBy != "pause_on" || p.PausedReason != "2 of the last 2 attempts failed; pause_on: {failures: 60%, of: 3}" {
		t.Errorf("%+v", p)
	}
	if w := ask(t, h, "POST", "/api/v1/pools/mail/resume", ""); w.Code != 200 || strings.Contains(w.Body.String(), "paused_reason") || mail().Paused {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
