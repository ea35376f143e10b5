// Package locks acquires locks at a lock service, for programs with several replicas. A backend
// (redislock, quorumlock, zklock, sqllock, memlock) implements a driver; this package has what all backends would repeat.
//
// # Session
//
// A [Locker] has one session at the service, opened at the first use and renewed every third of its ttl
// with one write, however many keys are held (mode row of sqllock pings a connection of each). When a session ends, all its leases end. The
// next acquire opens a new session.
//
// # Waiting in turn
//
// [Locker.Acquire] waits until it has all its keys, and [Do] runs a function while it has one. Lockers are served in the
// order in which they came, where the service has a queue (Caps.FIFO), and so are the waiters of one Locker, which share one
// place there: Lockers take turns, however many waiters each has. A place ends with its session, so that nobody waits for a
// dead process longer than for its ttl. A try does not overtake those who wait.
//
// A key is held by one, or together: by all that ask for it [Shared], or by as many as [Request].Limit says. Holders of
// different kinds exclude each other, and the first who waits is served first: readers do not overtake a writer. A hold keeps
// its kind until it is released.
//
// [Lead] runs a function whenever this process holds a key, and [Request].MaxHold has a lease given back after a time.
//
// # Three outcomes
//
// [Locker.TryAcquire] does not wait for a holder. For each key the answer is a [Lease]; or ErrBusy:
// another owner holds it; or ErrUnknown: the service was asked and did not answer. An unknown key
// may be held by this session, so it is released in the background.
// ErrUnavailable and ErrRecovering say that nothing was granted.
//
// # How long a lease may be trusted
//
// The service decides by its own clock when a session expires. The Locker stops trusting it earlier, by the process clock:
//
//	deadline = time before the last answered renewal was sent + ttl − max(1 % of ttl, 50 ms) − Caps.TrustMargin
//
// measured on the monotonic clock and on the boot-time clock, whichever is further. Each answered
// renewal extends the deadline; a failed one is retried until then. At the deadline every lease ends
// with ErrLost, for good. So in a process that is not stopped, the holder learns of the loss before the
// key can be granted again; Caps.EarlyLoss says where a service can also free keys without notice.
//
//	           acquire           Release
//	(nothing) ────────▶  held  ───────────▶ ErrReleased
//	                      │ │
//	                      │ ├─ held for MaxHold ────────────────────────▶ ErrReleased
//	                      │ └─ evicted by ForceRelease, or deleted ─────▶ ErrForced
//	                      └─── session expired, or deadline passed ─────▶ ErrLost
//
// [Lease.Context] ends with that cause; [Lease.Check] returns it without a call. [Lease.Left] is the time until the deadline.
//
// # Tokens
//
// Each grant has a [Token], larger for every later grant of the same key on one backend. Tokens order holders that exclude
// each other; those of holders together, under Shared or a Limit, are not for fencing.
//
// # What a lock cannot promise
//
// A process can be stopped between Check and its next step, for longer than its lease, and then
// continue. No lease excludes that. A write that must happen once is guarded where it is
// written: by the token, which that place must compare, or by a unique row. A lock
// is advice with a time limit.
package locks
