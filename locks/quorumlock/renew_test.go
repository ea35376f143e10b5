package quorumlock

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// A key that was granted by a bare majority is brought to the others by the next renewal.
func TestRenewalsRepair(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	a := wire(t, group, quick)
	s := open(t, a)
	a.reaches(0, 1, 2)
	held := take(t, s, "a")
	if n := on(t, group[4], "a"); n != 0 {
		t.Fatal("the last server has it already")
	}
	a.reaches(0, 1, 2, 3, 4)
	await.Until(t, "all servers have it", func() bool {
		renew(t, s)
		return on(t, group[3], "a")+on(t, group[4], "a") == 2
	})
	free(t, s, held)
	await.Until(t, "none has it", func() bool {
		renew(t, s)
		sum := 0
		for _, srv := range group {
			sum += on(t, srv, "a")
		}
		return sum == 0
	})
}

// A server that is named twice votes once, also where one of its names was away when the session was opened.
func TestAServerOfTwoNamesVotesOnce(t *testing.T) {
	t.Parallel()
	group := start(t, 2)
	other := *group[0]
	other.Addr = strings.Replace(other.Addr, "127.0.0.1", "localhost", 1)
	a := wire(t, append(group, &other), quick)
	a.reaches(0, 1)
	s := open(t, a)
	a.reaches(0, 1, 2)
	await.Until(t, "it is noticed", func() bool {
		_ = lockstest.Renew(t.Context(), s)
		return s.in(doubled) == mask(0).with(2)
	})
	await.Until(t, "both servers confirm", func() bool { return lockstest.Renew(t.Context(), s) == nil })
	for range 3 {
		renew(t, s)
	}
	free(t, s, take(t, s, "a"))
	a.reaches(0, 2)
	if r, err := ask(t, s, driver.Want{Key: "b"}); r.Token != 0 || err == nil {
		t.Errorf("one server granted it by two names: %+v, %v", r, err)
	}
}

// A renewal does not count if a key is not on a majority of the servers that confirm it, though the session is: so the holder
// does not rely on it.
func TestARenewalCountsForEachKey(t *testing.T) {
	t.Parallel()
	group := start(t, 3)
	a := wire(t, group, quick)
	s := open(t, a)
	a.reaches(0, 1)
	take(t, s, "a")
	// Another one votes for a on the last server, so that it cannot be brought there.
	voter := open(t, wire(t, group, quick))
	_, err := voter.on(t.Context(), 2, voteScript, voter.owner, "a", "x", 99, "", "")
	if err != nil {
		t.Fatal(err)
	}
	a.reaches(0, 2)
	if err := lockstest.Renew(t.Context(), s); err == nil || !strings.Contains(err.Error(), "have a,") {
		t.Errorf("renew: %v, want an error that names the key", err)
	}
	a.reaches(0, 1, 2)
	await.Until(t, "renewed", func() bool { return lockstest.Renew(t.Context(), s) == nil })
}
