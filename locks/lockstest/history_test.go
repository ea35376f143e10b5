package lockstest

import "testing"

// What has no answer may take effect until some time after the end of its session, and for ever if that has none. Where keys die
// alone it may have been freed at once, else with its session at the earliest.
func TestUnansweredEndsAfterItsSession(t *testing.T) {
	const asked, expires, over = 10, 50, 100
	for _, dieAlone := range []bool{false, true} {
		h := newHistory()
		h.keysDieAlone = dieAlone
		ended := &clientSession{number: 1, until: expires, over: over}
		open := &clientSession{number: 2, until: expires}
		for _, s := range []*clientSession{ended, open} {
			h.session(s)
			h.add(s.number, asked, call{key: "a", do: doAcquire, session: s.number}, answer{unknown: true})
			h.mayHold("a", s, asked)
		}
		h.expiries()
		if len(h.ops) != 4 {
			t.Fatalf("%+v", h.ops)
		}
		for _, op := range h.ops {
			c, wantCall, wantReturn := op.Input.(call), int64(asked), int64(never)
			if c.do == doExpire && !dieAlone {
				wantCall = expires
			}
			if c.session == 1 {
				wantReturn = over + mayArrive.Nanoseconds()
			}
			if op.Call != wantCall || op.Return != wantReturn {
				t.Errorf("keys die alone: %t, %s: from %d to %d, want %d to %d", dieAlone, describe(model, op), op.Call, op.Return, wantCall, wantReturn)
			}
		}
	}
}
