package wire

import "time"

// Vitals is the state of one replica, as far as it knows without asking the store or the lock service.
type Vitals struct {
	Replica  string
	Now      time.Time // by the database's clock, as the replica reckons it; zero before it has joined
	Ready    bool      // every Condition is
	Draining bool
	StoreUp  bool
	Backend  string // of the locks, as in jobs.ClaimTry.LockBackend
	LockUp   bool

	RenewalAge      time.Duration // since the store last acknowledged the session; 0 before it has joined
	SessionsExpired int           // sessions of this replica that the others declared dead
	PeersExpired    int           // sessions of others that this replica declared dead
	ClockSkew       time.Duration // the database's clock less this machine's, at the last beat
	ClockRefused    int           // beats whose time was further from what was expected than max_clock_skew

	Config  int64 // number of the configuration that was loaded; 0 = none yet
	Foreign int   // jobs that a newer configuration governs and has otherwise
	// ForeignPools are those in which some tasks, or all, are left to replicas with a newer configuration.
	ForeignPools int
	Stripes      int            // of the 64, those whose due times this replica looks after
	Pinged       *bool          // the monitor outside was called in this replica's last turn; nil: there is none, or was no turn yet
	Workers      int            // attempts at once, at most
	Running      map[string]int // attempts under way here, by pool; pools without any are absent
}
