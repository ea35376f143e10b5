// Package membership is the place of a replica among the others: its session and the heartbeats that renew it, the clock
// that it decides by, the sessions of its peers, and whether the store and the lock service answer.
//
//	           Join                    Keep: a heartbeat each third of the ttl
//	no session ────▶ session, trusted ◀──────────────┐
//	                    │    │                       │ acknowledged
//	                    │    └───────────────────────┘
//	                    │ no heartbeat acknowledged for the ttl, less a margin
//	                    ▼
//	                 session, not trusted ── expired by a peer ──▶ Join again
//
//	Watch: reads the peers, each second
//	  a peer's heartbeat has not changed for a session ttl, on the own clock  ─▶ its session is expired
//	  the peers, or their configurations, are others than before             ─▶ Hooks.Changed
//
// A replica trusts its session until the moment before it asked for the last acknowledged heartbeat, plus the session's
// ttl, less a margin (session.go). No wall clock decides which session expires, and an outage of the store expires none.
//
// The clock (clock.go) is the database's, as heartbeats bring it, unless it steps: then nothing is decided until it has
// been steady for some heartbeats.
package membership
