package lockstest

import (
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// history has the calls and answers of several clients, on one clock.
type history struct {
	base         time.Time
	keysDieAlone bool
	votes        bool

	mu      sync.Mutex
	ops     []porcupine.Operation
	clients int // streams so far
	unknown int
	granted int
	leases  []lease

	sessions map[int]*clientSession // by their numbers
}

// lease is a grant that was not released, as far as any call reported: it ends with its session, or from a moment before on, if
// that is not 0.
type lease struct {
	key     string
	session *clientSession
	from    int64
}

// mayArrive is how long after the end of its session a request without an answer may still reach the service and have an effect
// there, for a moment. Without an end to each operation the judge would have to try all of them at each later moment of the history.
const mayArrive = 30 * time.Second

func newHistory() *history { return &history{base: time.Now(), sessions: map[int]*clientSession{}} }

// now is the time of the history, in nanoseconds.
func (h *history) now() int64 { return time.Since(h.base).Nanoseconds() }

// stream is a new client: its calls are one after the other.
func (h *history) stream() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients++
	return h.clients
}

// session notes a new session.
func (h *history) session(t *clientSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions[t.number] = t
}

// sessionOf is the number of the session that is said to hold a key; 0: it is not known.
func (h *history) sessionOf(holder *driver.Info) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for number, s := range h.sessions {
		if holder != nil && s.ID() == holder.Session {
			return number
		}
	}
	return 0
}

// add records one answered call.
func (h *history) add(client int, asked int64, c call, a answer) {
	op := porcupine.Operation{ClientId: client, Input: c, Output: a, Call: asked, Return: h.now()}
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.unknown {
		op.Return = never
		h.clients++
		op.ClientId = h.clients // it may take effect after the next call of the client
		h.unknown++
	}
	if c.do == doAcquire && a.yes {
		h.granted++
	}
	h.ops = append(h.ops, op)
}

// undone notes a try that may have been granted, to a client that did not hear of it, before the service lost its data: it may have been
// held until now, by a session of its own, since that of the client brings back what it has heard of.
func (h *history) undone(c call, asked int64) {
	c.session = h.stream()
	expire := c
	expire.do = doExpire
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for _, op := range []porcupine.Operation{{Input: c, Output: answer{unknown: true}}, {Input: expire, Output: answer{yes: true}}} {
		h.clients++
		op.ClientId, op.Call, op.Return = h.clients, asked, now
		h.ops = append(h.ops, op)
	}
}

// holds notes that a session may hold a key when it ends. It ends once, and with it all that it holds of the key, unless keys die
// alone: each more expiry would double what the judge has to search.
func (h *history) holds(key string, t *clientSession) { h.lease(lease{key: key, session: t}) }

// mayHold notes the same of a request that was asked at a moment and has no answer. Where keys die alone, what it was granted may
// have been freed with the connection of the request.
func (h *history) mayHold(key string, t *clientSession, asked int64) {
	l := lease{key: key, session: t}
	if h.keysDieAlone {
		l.from = asked
	}
	h.lease(l)
}

func (h *history) lease(l lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keysDieAlone || !slices.Contains(h.leases, l) {
		h.leases = append(h.leases, l)
	}
}

// expiries adds the end of each lease that was not released, from the moment on that it may have ended, and says until when what
// has no answer may take effect.
func (h *history) expiries() {
	for _, l := range h.leases {
		h.clients++
		from := l.session.earliestEnd()
		if l.from != 0 {
			from = min(from, l.from)
		}
		h.ops = append(h.ops, porcupine.Operation{
			ClientId: h.clients,
			Input:    call{key: l.key, do: doExpire, session: l.session.number},
			Output:   answer{yes: true},
			Call:     from,
			Return:   never,
		})
	}
	for i, op := range h.ops {
		if over := h.ends(op.Input.(call).session); op.Return == never && over != never {
			h.ops[i].Return = over + mayArrive.Nanoseconds()
		}
	}
}
