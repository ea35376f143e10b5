package jobs

import (
	"cmp"
	"time"
)

// Ping is how the replicas tell a monitor outside that they can do their work: silence there means that nothing runs. The zero Ping tells nobody.
//
// In each Every one of the live replicas, each in its turn, calls Handler, as long as its session is trusted, the store answers it and due times
// are decided. The task that Handler gets is no row of the store: its ID and its IdempotencyKey are the same for all calls of one turn, and its payload is JSON for a
// monitor that reads it. A failure delays nothing.
type Ping struct {
	Every   time.Duration // from a second to a day; 0: a minute
	Handler Handler       // nil: nobody is told
}

// Interval is Every, or what it is by default.
func (g Ping) Interval() time.Duration { return cmp.Or(g.Every, time.Minute) }

func (p *problems) ping(path string, g Ping) {
	if g.Every != 0 && (g.Every < time.Second || g.Every > 24*time.Hour) {
		p.add(path+".every", "%v is out of range 1s–24h", g.Every)
	}
	switch {
	case g.Handler != nil:
		p.present(path, g.Handler)
	case g.Every != 0:
		p.add(path, "says how often, and not whom to tell; give it a Handler")
	}
}
