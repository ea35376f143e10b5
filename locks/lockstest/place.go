package lockstest

import (
	"crypto/rand"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Steps of cases about places in a queue. Each fails the test at once if the service does not answer, or otherwise than it should.

// asked is the outcome of one want that may wait.
type asked struct {
	driver.Result
	place driver.Place
}

// ask asks for one key under an id, after release.
func ask(t *testing.T, c driver.Session, id string, release []driver.Held, key string) asked {
	t.Helper()
	return asked{asks(t, c, id, release, key)[0], driver.Place{Acquisition: id, Key: key}}
}

// asks asks for keys, which must be sorted.
func asks(t *testing.T, c driver.Session, id string, release []driver.Held, keys ...string) []driver.Result {
	t.Helper()
	return wanted(t, c, id, release, Wants(keys...)...)
}

func wanted(t *testing.T, c driver.Session, id string, release []driver.Held, wants ...driver.Want) []driver.Result {
	t.Helper()
	results, err := c.Queue().Acquire(calling(t), id, release, wants)
	if err != nil || len(results) != len(wants) {
		t.Fatalf("acquire in turn: %+v, %v", results, err)
	}
	return results
}

// queued takes a place in the queue of a key that is held.
func queued(t *testing.T, c driver.Session, key string) driver.Place {
	t.Helper()
	return queuedFor(t, c, driver.Want{Key: key})
}

func queuedFor(t *testing.T, c driver.Session, w driver.Want) driver.Place {
	t.Helper()
	place := driver.Place{Acquisition: rand.Text(), Key: w.Key}
	if r := wanted(t, c, place.Acquisition, nil, w)[0]; !r.Queued || r.Token != 0 || r.Err != nil {
		t.Fatalf("%+v: want it queued", r)
	}
	return place
}

func look(t *testing.T, c driver.Session, place driver.Place) driver.Result {
	t.Helper()
	results, err := c.Queue().Look(calling(t), []driver.Place{place})
	if err != nil || len(results) != 1 {
		t.Fatalf("look: %+v, %v", results, err)
	}
	return results[0]
}

func stillQueued(t *testing.T, c driver.Session, place driver.Place) {
	t.Helper()
	if r := look(t, c, place); !r.Queued {
		t.Fatalf("%+v: want it still queued", r)
	}
}

// granted waits for the notification that the turn of a place has come.
func granted(t *testing.T, c driver.Session, place driver.Place) driver.Held {
	t.Helper()
	for ctx := calling(t); ; {
		select {
		case g := <-c.Queue().Granted():
			if g.Place == place && g.Token > 0 {
				return driver.Held{Key: g.Key, Token: g.Token}
			}
		case <-ctx.Done():
			t.Fatalf("no notification of %s; look says %+v", place.Key, look(t, c, place))
		}
	}
}
