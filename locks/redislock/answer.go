package redislock

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// errOutdated: the generation in which the server answered has ended.
var errOutdated = errors.New("the generation has ended")

// results reads the answer of acquire.lua, and enters it into the book.
func (s *session) results(gen, acquisition string, wants []driver.Want, answer []any) ([]driver.Result, error) {
	results := make([]driver.Result, len(wants))
	granted := false
	var recovering, malformed error
	current := s.inGeneration(gen, func(b *book) {
		for i, said := range answer {
			w, said := wants[i], said.(string)
			p := driver.Place{Acquisition: acquisition, Key: w.Key}
			r, queued, err := result(p.Key, said)
			switch {
			case err != nil:
				malformed = err
			case r.Token > 0:
				b.hold(w.Key, record{r.Token, s.id, acquisition, int64(r.Token), kindOf(w), s.owner, w.Meta})
				granted = true
			case r.Queued:
				queued.kind, queued.owner, queued.meta = kindOf(w), s.owner, w.Meta
				b.wait(p, queued)
			default:
				b.leave(p)
				if errors.Is(r.Err, driver.ErrRecovering) {
					recovering = r.Err
				}
			}
			results[i] = r
		}
		for _, w := range wants[len(answer):] { // not asked for
			b.leave(driver.Place{Acquisition: acquisition, Key: w.Key})
		}
	})
	switch {
	case malformed != nil:
		return nil, malformed
	case !current:
		return nil, errOutdated
	case recovering != nil && !granted:
		return nil, recovering
	}
	return results, nil
}

// result reads the outcome for one key.
func result(key, said string) (r driver.Result, w waiting, err error) {
	kind, rest := said[:1], said[1:]
	switch kind {
	case "+":
		token, err := strconv.ParseInt(rest, 10, 64)
		return driver.Result{Token: driver.Token(token)}, w, err
	case "~":
		place, by, _ := strings.Cut(rest, "\n")
		w.number, w.since, _ = strings.Cut(place, " ")
		r.Queued, rest = true, by
	case "!":
		return driver.Result{Err: driver.ErrAbandoned}, w, nil
	case "?":
		return driver.Result{Err: waitFor(rest)}, w, nil
	case "0":
		return driver.Result{Err: driver.ErrNotQueued}, w, nil
	}
	if rest == "" { // nobody has it, while nothing is granted
		return r, w, nil
	}
	remaining, rest, _ := strings.Cut(rest, "\n")
	micros, err := strconv.ParseInt(remaining, 10, 64)
	by, err2 := parse(rest)
	if err := cmp.Or(err, err2); err != nil {
		return driver.Result{}, w, err
	}
	info := by.info(key)
	info.Remaining = time.Duration(micros) * time.Microsecond
	r.Holder = &info
	return r, w, nil
}

// waitFor reads what grace() of namespace.lua says: how long nothing is granted, and why.
func waitFor(grace string) error {
	micros, up, _ := strings.Cut(grace, " ")
	n, err := strconv.ParseInt(micros, 10, 64)
	if err != nil {
		return err
	}
	why := "the server was started again, has failed over or has lost data a short time ago"
	if up != "" {
		why = "the server is new, or was started again, " + up + " s ago"
	}
	wait := time.Duration(n) * time.Microsecond
	return fmt.Errorf("%w: %s, and may not know of all locks; they are granted from %s on, in %v",
		driver.ErrRecovering, why, time.Now().Add(wait).Format(time.TimeOnly), wait.Round(time.Millisecond))
}
