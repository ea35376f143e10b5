package redislock

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// book has what the session holds and where it waits, to reassert it. Guarded by the session's mu.
type book struct {
	holdings map[driver.Place]record
	under    map[driver.Held]driver.Place // the holdings, by token
	waits    map[driver.Place]waiting
	asked    map[driver.Place]waiting // as above, without an answer: their grants may come first
}

// waiting is a place in a queue: see places in namespace.lua.
type waiting struct {
	number      string // as the server writes it
	since       string
	kind        string
	owner, meta string
}

func (w waiting) String() string {
	return strings.Join([]string{w.number, w.since, w.kind, w.owner, w.meta}, "\n")
}

func newBook() book {
	return book{map[driver.Place]record{}, map[driver.Held]driver.Place{}, map[driver.Place]waiting{}, map[driver.Place]waiting{}}
}

// hold enters a holding, which may have waited.
func (b *book) hold(key string, r record) {
	p := driver.Place{Acquisition: r.acquisition, Key: key}
	b.leave(p)
	b.holdings[p], b.under[driver.Held{Key: key, Token: r.token}] = r, p
}

// ask notes that a place is asked for.
func (b *book) ask(p driver.Place, w waiting) {
	if _, waits := b.waits[p]; !waits {
		b.asked[p] = w
	}
}

// wait enters a place, unless its grant came before the answer.
func (b *book) wait(p driver.Place, w waiting) {
	if _, held := b.holdings[p]; !held {
		b.leave(p)
		b.waits[p] = w
	}
}

// granted makes a place a holding, and reports whether it was one or the other.
func (b *book) granted(p driver.Place, session string, token driver.Token) bool {
	w, waits := b.waits[p]
	if !waits {
		w, waits = b.asked[p]
	}
	if waits {
		b.hold(p.Key, record{token, session, p.Acquisition, int64(token), w.kind, w.owner, w.meta})
	}
	return b.holdings[p].token == token
}

// release takes out what is held under a token.
func (b *book) release(h driver.Held) {
	if p, held := b.under[h]; held {
		b.leave(p)
	}
}

// leave takes out what an acquisition has of a key.
func (b *book) leave(p driver.Place) {
	if r, held := b.holdings[p]; held {
		delete(b.under, driver.Held{Key: p.Key, Token: r.token})
		delete(b.holdings, p)
	}
	delete(b.waits, p)
	delete(b.asked, p)
}

// held lists the holdings.
func (b *book) held() []driver.Held { return slices.Collect(maps.Keys(b.under)) }

// args are the holdings and the places, as reassert.lua takes them.
func (b *book) args() []any {
	args := []any{len(b.holdings)}
	for p, r := range b.holdings {
		args = append(args, p.Key, r.String())
	}
	for p, w := range b.waits {
		args = append(args, p.Key, p.Acquisition, w.String())
	}
	return args
}

// parseHeld reads "key token".
func parseHeld(text string) driver.Held {
	key, digits, _ := strings.Cut(text, " ")
	token, _ := strconv.ParseInt(digits, 10, 64)
	return driver.Held{Key: key, Token: driver.Token(token)}
}
