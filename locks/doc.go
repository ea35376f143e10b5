// Package locks takes locks at a lock service, for programs of which several replicas run. A backend
// (redislock, zklock, sqllock, memlock) brings a driver; all that backends would repeat is here.
//
// # Tenure
//
// A [Locker] has one session at the service, opened at the first use and renewed with one call every
// third of its ttl, however many keys are held. A session that ends takes all its leases along. The
// next acquire works on a new one.
//
// # Three outcomes
//
// [Locker.TryAcquire] never waits for a holder. For each key the answer is a [Lease], or ErrBusy:
// somebody else has it, or ErrUnknown: the service was asked and did not answer. Unknown is neither
// busy nor granted: the key may be held in our name for a while, so it is freed in the background.
// ErrUnavailable and ErrRecovering say that nothing was granted.
//
// # How long a lease may be trusted
//
// The service judges by its own clock when a session is over. We judge it earlier, by ours:
//
//	deadline = time before the last answered renewal was sent + ttl − max(1 % of ttl, 50 ms) − Caps.TrustMargin
//
// counted on the monotonic clock and on the one that goes on while the machine sleeps, whichever is
// further. Each answered renewal moves it ahead; one that fails is tried again until then. At the
// deadline every lease ends with ErrLost, whether or not anything answered, and nothing brings it
// back. So in a process that is not stopped the holder is told before anybody else can be granted
// the key; Caps.EarlyLoss says where a service can also free keys without telling first.
//
//	           acquire           Release
//	(nothing) ────────▶  held  ───────────▶ ErrReleased
//	                      │ │
//	                      │ └─ taken away by ForceRelease, or deleted ──▶ ErrForced
//	                      └─── session over, or deadline passed ────────▶ ErrLost
//
// [Lease.Context] ends with that cause, [Lease.Check] says it without a call.
//
// # Tokens
//
// Each grant has a [Token], larger for every later grant of the same key on one backend.
//
// # What a lock cannot promise
//
// A process can be stopped between Check and what it does next, for longer than its lease, and then
// go on as if nothing had happened. No lease excludes that. What must happen once is guarded at the
// place where it is written: by the token, which that place must compare, or by a unique row. A lock
// keeps others out of the way; it is advice with a time limit.
package locks
