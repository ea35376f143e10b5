//go:build linux

package nemesis

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// stepFor is how long a clock is wrong: the store takes a new time when it has seen it three times.
const stepFor = 12 * time.Second

var errNoClocks = errors.New("the arena has no clocks")

// clocks step wall clocks. Monotonic ones do not move.
func clocks() (all []Nemesis) {
	for _, s := range []struct {
		name string
		by   time.Duration
	}{
		{"+5s", 5 * time.Second}, {"-5s", -5 * time.Second}, {"-1h", -time.Hour}, {"+1h", time.Hour},
	} {
		replicaClock := []history.Kind{history.ReplicaClock}
		storeClock := []history.Kind{history.StoreClock}
		all = append(all,
			Nemesis{Name: "replica-clock" + s.name, subject: other, Clocks: true, Hold: stepFor, Kinds: replicaClock, Fits: onMariaDB, Strike: stepReplica(s.by)},
			Nemesis{Name: "mariadb-clock" + s.name, subject: other, Clocks: true, Hold: stepFor, Kinds: storeClock, ahead: s.by, Fits: onMariaDB, Strike: stepStore(s.by)},
			// On one machine all share one clock, which is the database's.
			Nemesis{Name: "machine-clock" + s.name, subject: other, Clocks: true, Hold: stepFor, Kinds: storeClock, ahead: s.by, Fits: onSQLite, Strike: stepMachine(s.by)},
		)
	}
	lockClock := []history.Kind{history.LockClock}
	return append(all,
		Nemesis{Name: "zk-clock+1h", subject: other, Clocks: true, Hold: stepFor, Kinds: lockClock, Fits: onZooKeeper, Strike: stepZooKeeper(time.Hour)},
		Nemesis{Name: "zk-clock-5s", subject: other, Clocks: true, Hold: stepFor, Kinds: lockClock, Fits: onZooKeeper, Strike: stepZooKeeper(-5 * time.Second)},
		Nemesis{Name: "quorum-clock+1h", subject: other, Clocks: true, Hold: stepFor, Fits: onQuorum, Strike: stepNode(time.Hour)}, // nothing is excused
		Nemesis{Name: "quorum-clock-1h", subject: other, Clocks: true, Hold: stepFor, Fits: onQuorum, Strike: stepNode(-time.Hour)},
		Nemesis{Name: "lockdb-clock+1h", subject: other, Clocks: true, Hold: stepFor, Kinds: lockClock, Fits: onLockServer, Strike: stepLockStore(time.Hour)},
		Nemesis{Name: "lockdb-clock-5s", subject: other, Clocks: true, Hold: stepFor, Kinds: lockClock, Fits: onLockServer, Strike: stepLockStore(-5 * time.Second)},
	)
}

// Order is where in a run a window of these nemeses belongs: 0, or 1 if it steps the database's clock, after
// which times cannot be compared, or 2 if it sets it far ahead: what is due until then is decided at once, and
// nothing is due afterwards until the time has come again.
func Order(all []Nemesis) (order int) {
	for _, n := range all {
		switch {
		case n.ahead >= time.Minute:
			order = 2
		case slices.Contains(n.Kinds, history.StoreClock):
			order = max(order, 1)
		}
	}
	return order
}

func stepReplica(by time.Duration) strike {
	return func(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
		victim, err := pick(a, r)
		if err != nil {
			return Struck{}, err
		}
		return stepReplicas(by, victim)
	}
}

func stepMachine(by time.Duration) strike {
	return func(_ context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
		s, err := stepReplicas(by, a.Replicas...)
		s.Ahead = by
		return s, err
	}
}

func stepReplicas(by time.Duration, victims ...*arena.Replica) (Struck, error) {
	step := func(by time.Duration) (err error) {
		for _, v := range victims {
			if v.Clock == nil {
				return errNoClocks
			}
			err = errors.Join(err, v.Clock.Step(by))
		}
		return err
	}
	if err := step(by); err != nil {
		return Struck{}, errors.Join(err, step(0))
	}
	return Struck{Replicas: ids(victims...), Heal: func(ctx context.Context) (bool, string, error) {
		applied, evidence := true, ""
		for _, v := range victims {
			var ahead time.Duration
			var err error
			shown := poll(ctx, chance, seldom, func() bool { // it may just be starting
				ahead, err = shows(ctx, v)
				return err == nil
			})
			near := shown && (ahead-by).Abs() < 2*time.Second
			applied = applied && near
			if !shown {
				evidence += err.Error() + "; "
				continue
			}
			evidence += fmt.Sprintf("%s shows a time %v ahead; ", v.ID, ahead.Round(time.Second))
		}
		return applied, strings.TrimSuffix(evidence, "; "), step(0)
	}}, nil
}

// shows is how far a replica's clock is ahead: its answers have a date.
func shows(ctx context.Context, r *arena.Replica) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL()+"/healthz", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	_ = answer.Body.Close()
	date, err := http.ParseTime(answer.Header.Get("Date"))
	return time.Until(date), err
}

func stepStore(by time.Duration) strike {
	return func(ctx context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
		s, err := stepMariaDB(storeBase, a, by)
		s.Ahead = by
		return s, err
	}
}

func stepLockStore(by time.Duration) strike {
	return func(ctx context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
		return stepMariaDB(lockBase, a, by)
	}
}

func stepMariaDB(b base, a *arena.Arena, by time.Duration) (Struck, error) {
	clock := b.server(a).Clock
	if clock == nil {
		return Struck{}, errNoClocks
	}
	if err := clock.Step(by); err != nil {
		return Struck{}, err
	}
	return healed(clock, func(ctx context.Context) (bool, string, error) {
		db, err := b.root(a)
		if err != nil {
			return false, "", err
		}
		defer db.Close()
		ahead, err := databaseAhead(ctx, db)
		return (ahead - by).Abs() < 2*time.Second, fmt.Sprintf("MariaDB shows a time %v ahead", ahead.Round(time.Second)), err
	}), nil
}

func databaseAhead(ctx context.Context, db *sql.DB) (time.Duration, error) {
	var ms int64
	err := db.QueryRowContext(ctx, "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000 AS SIGNED)").Scan(&ms)
	return time.Until(time.UnixMilli(ms)), err
}

// healed looks at a server's clock before it sets it right.
func healed(c *servers.Clock, look heal) Struck {
	return Struck{Heal: func(ctx context.Context) (bool, string, error) {
		applied, evidence, err := look(ctx)
		return applied && err == nil, evidence, errors.Join(err, c.Step(0))
	}}
}

func stepZooKeeper(by time.Duration) strike {
	return func(ctx context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
		clock := a.ZooKeeper.Clock
		if clock == nil {
			return Struck{}, errNoClocks
		}
		if err := clock.Step(by); err != nil {
			return Struck{}, err
		}
		return healed(clock, func(ctx context.Context) (bool, string, error) {
			at, err := zooKeeperTime(a.ZooKeeper.Addrs())
			ahead := time.Until(at)
			return (ahead - by).Abs() < 2*time.Second, fmt.Sprintf("ZooKeeper shows a time %v ahead", ahead.Round(time.Second)), err
		}), nil
	}
}

// zooKeeperTime is when ZooKeeper says that a node was made just now.
func zooKeeperTime(addrs []string) (time.Time, error) {
	conn, _, err := zk.Connect(addrs, 5*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return time.Time{}, err
	}
	defer conn.Close()
	const path = "/chaos-clock"
	if _, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		return time.Time{}, err
	}
	_, stat, err := conn.Exists(path)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(stat.Ctime), nil
}
